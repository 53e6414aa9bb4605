package checkpointlog

import (
	"errors"
	"io/fs"

	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/store"
)

const (
	rewriteFloor = 4 << 20  // smaller logs are left as they are
	partSize     = 64 << 20 // bytes of log whose images are in memory at once
)

// rewriteLimit is the size beyond which a log is rewritten whose size was this after the last time.
func (l *Log) rewriteLimit(size int64) int64 { return max(l.options.floor, 2*size) }

// parts is how many shares the images of a log of this size are taken in.
func (l *Log) parts(size int64) uint64 { return 1 + uint64(size/l.options.part) }

// wholeSize estimates how long a log would be that holds nothing but st.
func wholeSize(st *store.Stored) int64 {
	size := 0
	for name, img := range st.Images {
		size += 32 + len(name) + 8*len(img.Digests) + 8*len(img.Missing)
		for _, b := range img.Queue {
			size += 20 + len(b.Payload)
		}
	}
	for name, s := range st.Seats {
		size += 4 + len(name) + len(s.Instance)
		for _, retired := range s.Retired {
			size += 1 + len(retired)
		}
	}
	return int64(size)
}

// temp is a log being written beside the one in use. Nobody relies on it before it is renamed.
type temp struct {
	f    disk.File
	seed uint32
	seq  uint64
	size int64
	buf  []byte
}

func (l *Log) newTemp(h header) (*temp, error) {
	if err := l.fs.Remove(l.path + tempSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := l.fs.Open(l.path+tempSuffix, true, 0o600)
	if err != nil {
		return nil, err
	}
	w := &temp{f: f, seed: h.seed(), seq: h.first - 1}
	return w, w.write(h.append(nil))
}

func (w *temp) write(b []byte) error {
	n, err := w.f.Write(b)
	w.size += int64(n)
	return err
}

// whole writes a frame with the images and the seats of one share. Only the last one is the checkpoint: before it
// the file does not hold all of it.
func (w *temp) whole(st *store.Stored, part share) error {
	var e entry
	if part.index == part.of-1 {
		e.number, e.position = st.Number, st.Position
	}
	w.buf = w.buf[:0]
	var ends []int
	for name, img := range st.Images {
		if part.has(name) {
			w.buf = img.AppendWhole(w.buf)
			ends = append(ends, len(w.buf))
			e.changes = append(e.changes, store.Change{Collector: name})
		}
	}
	from := 0
	for i, end := range ends {
		e.changes[i].Delta = w.buf[from:end]
		from = end
	}
	for name, s := range st.Seats {
		if part.has(name) {
			e.seats = append(e.seats, seat{name, s})
		}
	}
	w.seq++
	return w.write(appendMark(e.appendFrame(nil, w.seq, w.seed), w.seq, w.seed))
}

// startRewrite begins a rewriting when the log has grown enough. It runs beside Save and Anchor: the
// frames up to here become whole images, those that come meanwhile are copied behind them.
func (l *Log) startRewrite() {
	if l.end <= l.limit || l.rewriting {
		return
	}
	l.rewriting = true
	f, h, end, seq := l.f, l.header, l.end, l.seq
	l.background.Go(func() { l.rewrite(f, h, end, seq) })
}

func (l *Log) rewrite(f disk.File, h header, end int64, seq uint64) {
	parts := min(l.parts(end), seq)
	h.first = seq - parts + 1 // the frames that are copied go on counting
	w, err := l.newTemp(h)
	if err == nil {
		err = l.compact(w, f, end, uint32(parts))
	}
	if err == nil {
		end, err = l.copyTail(w, f, end)
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	l.rewriting = false
	if err == nil {
		err = w.copy(l.f, end, l.end)
	}
	before := l.end
	err = l.replace(w, h, errors.Join(err, l.err))
	if l.life.Err() != nil {
		return
	}
	if err != nil {
		l.limit = l.end + l.options.floor
		l.log.Warn("the checkpoint log was not rewritten, it goes on growing", "file", l.path, "bytes", before, "error", err)
		return
	}
	l.log.Info("the checkpoint log was rewritten", "file", l.path, "bytes_before", before, "bytes", l.end)
}

// compact reads the log up to end and writes it as whole images, share by share.
func (l *Log) compact(w *temp, f disk.File, end int64, parts uint32) error {
	for i := range parts {
		if err := l.life.Err(); err != nil {
			return err
		}
		r, err := newReader(f, l.path)
		if err != nil {
			return err
		}
		r.size = end
		part := share{i, parts}
		st, err := replay(r, part)
		if err != nil {
			return err
		}
		if err := w.whole(st, part); err != nil {
			return err
		}
	}
	return w.f.Sync()
}

// copyTail copies what was written meanwhile, so that little is left for when nobody may write.
func (l *Log) copyTail(w *temp, f disk.File, from int64) (int64, error) {
	for range 4 {
		l.turn.Lock()
		end := l.end
		l.turn.Unlock()
		if end-from < windowSize {
			break
		}
		if err := errors.Join(w.copy(f, from, end), w.f.Sync()); err != nil {
			return from, err
		}
		from = end
	}
	return from, nil
}

func (w *temp) copy(src disk.File, from, to int64) error {
	w.size += to - from
	return disk.Copy(w.f, src, from, to)
}

// replace puts a finished temp in the place of the log and goes on with it; when writing it failed,
// or this fails, the log stays as it was and the temp goes.
func (l *Log) replace(w *temp, h header, err error) error {
	if err == nil {
		err = w.f.Sync()
	}
	if err == nil {
		err = l.fs.Rename(l.path+tempSuffix, l.path)
	}
	if err != nil {
		return errors.Join(err, l.discard(w))
	}
	f, err := l.fs.Open(l.path, false, 0o600) // under its own name, which errors will give
	if err := errors.Join(err, w.f.Close(), l.fs.SyncDir(l.dir)); err != nil {
		return l.fail(err)
	}
	old := l.f
	l.f, l.header, l.end = f, h, w.size
	l.limit = l.rewriteLimit(l.end)
	if old == nil {
		return nil
	}
	return old.Close()
}

func (l *Log) discard(w *temp) error {
	if w == nil {
		return nil
	}
	return errors.Join(w.f.Close(), l.fs.Remove(l.path+tempSuffix))
}
