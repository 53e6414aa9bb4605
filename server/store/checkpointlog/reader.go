package checkpointlog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/tidemark/tidemark/server/internal/disk"
)

// Damage is the error about a log that no crash leaves behind: bytes that were durable are not what
// was written. Only an operator can decide what to do about it ([Options].Recover).
type Damage struct {
	Path   string
	Offset int64 // of the first frame or mark that is wrong
	What   string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%s: damaged at offset %d: %s", d.Path, d.Offset, d.What)
}

// reader walks through the frames of a log, up to its end or the first thing that is wrong. It looks
// at the size once, so a log that is being written to can be read.
type reader struct {
	f    disk.File
	path string
	size int64
	header
	seed uint32 // of the header

	frames   uint64 // good ones so far
	seq      uint64 // of the last good frame
	start    int64  // of the last good frame
	end      int64  // behind the last good frame, and behind its mark when that was looked at
	unmarked bool   // what follows is the mark of the last frame, if anything
	sealed   bool   // the last frame has its mark
	blanked  bool   // the mark before end is blank
	torn     string // what is wrong with an unfinished write at the end

	window []byte // bytes of the file from at
	at     int64
}

const windowSize = 256 << 10

// newReader reads the header. With a *Damage the reader is usable all the same: its frames may be good.
func newReader(f disk.File, path string) (*reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := &reader{f: f, path: path, size: info.Size, sealed: true}
	b, err := r.peek(0, int64(headerSize))
	if err != nil {
		return nil, err
	}
	r.header, err = parseHeader(b)
	r.seed, r.seq, r.end = r.header.seed(), r.first-1, int64(len(b))
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, ErrFormat):
		return nil, fmt.Errorf("%s: %w", path, err)
	default:
		return r, &Damage{path, 0, err.Error()}
	}
}

// peek returns n bytes from off, fewer at the end of the file. They are valid until the next call.
func (r *reader) peek(off, n int64) ([]byte, error) {
	n = min(n, r.size-off)
	if off < r.at || off+n > r.at+int64(len(r.window)) {
		size := min(max(n, windowSize), r.size-off)
		if int64(cap(r.window)) < size {
			r.window = make([]byte, size)
		}
		r.window, r.at = r.window[:size], off
		if got, err := r.f.ReadAt(r.window, off); int64(got) < size {
			r.window = r.window[:0]
			return nil, fmt.Errorf("%s: offset %d: %w", r.path, off, err)
		}
	}
	return r.window[off-r.at:][:n:n], nil
}

// next returns the next frame and io.EOF at the end, where torn says whether an unfinished write
// follows. What it returns aliases the reader. A *Damage is final.
func (r *reader) next() (*entry, error) {
	if err := r.mark(); err != nil {
		return nil, err
	}
	if r.end == r.size || r.torn != "" {
		return nil, io.EOF
	}
	e, wrong, err := r.frame()
	if err != nil || wrong == "" {
		return e, err
	}
	if err := r.judge(wrong); err != nil {
		return nil, err
	}
	if r.blanked { // goes with the torn write behind it: a blank mark with a whole one behind it reads as damage later
		r.end -= int64(headSize)
	}
	return nil, io.EOF
}

// judge tells an unfinished write, of which a crash may leave any part, from damage: behind a frame
// that was not durable there is nothing that was written after it. Only damage is an error.
func (r *reader) judge(wrong string) error {
	for off := r.end; ; off++ {
		at, h, err := r.find(off)
		if err == io.EOF {
			r.torn = wrong
			return nil
		}
		if err != nil {
			return err
		}
		if h.seq > r.seq && (at > r.end || h.kind == kindSeal || h.seq != r.seq+1) {
			return &Damage{r.path, r.end, fmt.Sprintf("%s, and the %s at offset %d shows that this was durable", wrong, h, at)}
		}
		off = at
	}
}

// find returns the first valid head at or behind off, or io.EOF.
func (r *reader) find(off int64) (int64, head, error) {
	for off+int64(headSize) <= r.size {
		if _, err := r.peek(off, int64(headSize)); err != nil {
			return 0, head{}, err
		}
		b := r.window[off-r.at:]
		for i := 0; i+headSize <= len(b); i++ {
			if h, ok := parseHead(b[i:], r.seed); ok {
				return off + int64(i), h, nil
			}
		}
		off += int64(len(b) - headSize + 1)
	}
	return 0, head{}, io.EOF
}

// lastNumber is the highest checkpoint number in the frames behind end that can be read, or 0.
func (r *reader) lastNumber() (uint64, error) {
	last := uint64(0)
	for off := r.end; ; {
		at, h, err := r.find(off)
		if err == io.EOF {
			return last, nil
		}
		if err != nil {
			return 0, err
		}
		off = at + 1
		r.end, r.seq = at, h.seq-1
		if e, wrong, err := r.frame(); err == nil && wrong == "" {
			last, off = max(last, e.number), r.end
		}
	}
}

func (h head) String() string {
	if h.kind == kindSeal {
		return fmt.Sprintf("mark of frame %d", h.seq)
	}
	return fmt.Sprintf("frame %d", h.seq)
}

// frame reads the frame at end. What is wrong with it comes back as a text.
func (r *reader) frame() (*entry, string, error) {
	b, err := r.peek(r.end, int64(headSize))
	if err != nil {
		return nil, "", err
	}
	h, ok := parseHead(b, r.seed)
	rest := uint64(r.size - r.end - int64(len(b)))
	switch {
	case len(b) < headSize:
		return nil, fmt.Sprintf("frame %d is cut off after %d bytes", r.seq+1, len(b)), nil
	case !ok:
		return nil, fmt.Sprintf("the head of frame %d fails its check", r.seq+1), nil
	case h.kind != kindFrame || h.seq != r.seq+1:
		return nil, fmt.Sprintf("a %s where frame %d belongs", h, r.seq+1), nil
	case h.length > rest:
		return nil, fmt.Sprintf("frame %d is cut off: it has %d bytes, the file %d more", h.seq, h.length, rest), nil
	}
	if b, err = r.peek(r.end, int64(headSize)+int64(h.length)); err != nil {
		return nil, "", err
	}
	if b = b[headSize:]; crc32.Update(r.seed, castagnoli, b) != h.body {
		return nil, fmt.Sprintf("frame %d fails its check", h.seq), nil
	}
	e, err := parseEntry(b)
	if err != nil {
		return nil, "", &Damage{r.path, r.end, err.Error()}
	}
	r.seq, r.start, r.end = h.seq, r.end, r.end+int64(headSize)+int64(h.length)
	r.frames++
	r.unmarked, r.sealed, r.blanked = true, false, false
	return e, "", nil
}

// mark reads what follows a frame. At the end of the log a mark may be missing: it is written and
// not yet durable. Before another frame it may be blank: it would have become durable with that one.
// Then that frame shows that the one before it was durable, since its writing began later.
func (r *reader) mark() error {
	if !r.unmarked {
		return nil
	}
	r.unmarked = false
	b, err := r.peek(r.end, int64(2*headSize))
	if err != nil {
		return err
	}
	want := appendMark(nil, r.seq, r.seed)
	if len(b) < headSize || !blank(b[:headSize], want) {
		if len(b) > 0 {
			return r.judge(fmt.Sprintf("the mark of frame %d is incomplete or fails its check", r.seq))
		}
		return nil
	}
	r.sealed = bytes.Equal(b[:headSize], want)
	next, ok := parseHead(b[headSize:], r.seed)
	if r.sealed || ok && next.kind == kindFrame && next.seq == r.seq+1 {
		r.end += int64(headSize)
		r.blanked = !r.sealed
		return nil
	}
	return r.judge(fmt.Sprintf("the mark of frame %d is blank", r.seq))
}

// blank tells whether b is want of which some bytes never reached the disk.
func blank(b, want []byte) bool {
	for i := range b {
		if b[i] != 0 && b[i] != want[i] {
			return false
		}
	}
	return true
}
