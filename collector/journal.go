package collector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/protocol"
)

const (
	journalName  = "journal"
	lockName     = "lock"
	tempSuffix   = ".tmp"
	cutSuffix    = ".cut-"
	journalFloor = 1 << 20 // a smaller journal is not rewritten
)

// ErrInUse says that another process has the journal.
var ErrInUse = errors.New("in use by another process")

// Journal keeps the numbers of a collector and its unacknowledged records in a folder of its own. A record is on disk
// before its number is used. Any number of goroutines may use it.
type Journal struct {
	dir, path string
	lock      *os.File

	mu        sync.Mutex
	f         *os.File
	size      int64
	live      []span // the frames with records that are not acknowledged, and where they lie
	liveBytes int64
	next      uint64
	watermark uint64
	source    []byte
	held      [][]byte // for the one that takes them first
	cut       int64
	cutFile   string
	err       error // after a failure that leaves the file unknown
	buf       []byte
}

// span is a frame of records in the file.
type span struct {
	first, last uint64
	from, len   int64
}

// OpenJournal takes the folder for this process, makes it when there is none, and reads it. An unfinished write at its
// end is cut off and kept beside it, in journal.cut-N. The error is ErrInUse when another process has it; what is damaged
// before the end is an error that names file and offset, and is left alone.
func OpenJournal(dir string) (*Journal, error) {
	j := &Journal{dir: dir, path: filepath.Join(dir, journalName), next: 1}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("buffer %s: %w", dir, err)
	}
	return j, nil
}

func (j *Journal) open() (err error) {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	if j.lock, err = os.OpenFile(filepath.Join(j.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := unix.Flock(int(j.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return errors.Join(err, j.lock.Close())
	}
	if err := j.load(); err != nil {
		return errors.Join(err, j.Close())
	}
	return nil
}

// load reads the file, or makes it.
func (j *Journal) load() error {
	text, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return j.rewrite()
	}
	if err != nil {
		return err
	}
	if len(text) < len(journalMagic) || string(text[:len(journalMagic)]) != journalMagic {
		return fmt.Errorf("%s: is not a journal of this program", j.path)
	}
	at := len(journalMagic)
	for at < len(text) {
		f, size, err := parseFrame(text[at:])
		if errors.Is(err, errTorn) {
			behind := findFrame(text[at:])
			if behind < 0 {
				break
			}
			err = fmt.Errorf("the frame is not whole, but one at offset %d is; put the file in order from a copy, or move the "+
				"buffer away and use another collector name", at+behind)
		}
		if err == nil {
			err = j.take(f, int64(at), int64(size))
		}
		if err != nil {
			return fmt.Errorf("%s: damaged at offset %d: %w", j.path, at, err)
		}
		at += size
	}
	if j.f, err = os.OpenFile(j.path, os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return err
	}
	j.size, j.cut = int64(at), int64(len(text)-at)
	return j.settle(text[at:])
}

// settle makes what was read durable, and cuts off what is torn.
func (j *Journal) settle(torn []byte) error {
	if len(torn) > 0 {
		if err := j.setAside(torn); err != nil {
			return err
		}
		if err := j.f.Truncate(j.size); err != nil {
			return err
		}
	}
	if err := j.f.Sync(); err != nil {
		return err
	}
	return syncDir(j.dir)
}

// setAside keeps what is cut off in a file of its own; each has the next free number.
func (j *Journal) setAside(torn []byte) error {
	for n := 1; ; n++ {
		f, err := os.OpenFile(j.path+cutSuffix+strconv.Itoa(n), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		j.cutFile = f.Name()
		_, err = f.Write(torn)
		return errors.Join(err, f.Sync(), f.Close())
	}
}

// take applies a frame at start.
func (j *Journal) take(f frame, at, size int64) error {
	switch f.kind {
	case kindRecords:
		if f.number != j.next {
			return fmt.Errorf("records from number %d, and %d comes next", f.number, j.next)
		}
		for record, err := range protocol.Records(f.records) {
			if err != nil {
				return err
			}
			j.held = append(j.held, record)
			j.next++
		}
		j.source = f.source
		j.liveSpan(span{f.number, j.next - 1, at, size})
	case kindAcknowledged:
		if at == int64(len(journalMagic)) { // says where the numbers go on
			j.next, j.watermark = f.number+1, f.number
		}
		if f.number >= j.next || f.number < j.watermark {
			return fmt.Errorf("watermark %d, allowed is %d to %d", f.number, j.watermark, j.next-1)
		}
		j.held = j.held[f.number-j.watermark:]
		j.acknowledged(f.number)
	case kindSource:
		j.source = f.source
	default:
		return fmt.Errorf("a frame of unknown kind %q", f.kind)
	}
	return nil
}

// Held is what was not acknowledged when the journal was opened, and the number of the first of it, or the next number
// when nothing is held. It is for one caller, once.
func (j *Journal) Held() (first uint64, records [][]byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	records, j.held = j.held, nil
	return j.next - uint64(len(records)), records
}

// Source is what the last Append said of where the next records come from; empty after Finish.
func (j *Journal) Source() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.source
}

// Cut is how many bytes were cut off the end when the journal was opened, and the file that keeps them. They are of a
// write that did not come to its end, or of a last one that was damaged later.
func (j *Journal) Cut() (bytes int64, file string) { return j.cut, j.cutFile }

// Append makes records durable under the next numbers, together with where the next ones come from.
func (j *Journal) Append(source []byte, records [][]byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = appendFrame(j.buf[:0], frame{kind: kindRecords, number: j.next, source: source}, records)
	at, size, first := j.size, int64(len(j.buf)), j.next
	if err := j.write(true); err != nil {
		return err
	}
	j.next += uint64(len(records))
	j.source = bytes.Clone(source)
	j.liveSpan(span{first, j.next - 1, at, size})
	if j.size > journalFloor && j.size > 4*j.liveBytes {
		return j.fail(j.rewrite())
	}
	return nil
}

// Acknowledge forgets the records up to the watermark. It is durable with the next Append; after a power cut some may be
// sent once more.
func (j *Journal) Acknowledge(watermark uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if watermark <= j.watermark {
		return nil
	}
	j.buf = appendFrame(j.buf[:0], frame{kind: kindAcknowledged, number: watermark}, nil)
	if err := j.write(false); err != nil {
		return err
	}
	j.acknowledged(watermark)
	return nil
}

// Finish says that the source of the records has ended: the next process starts with another one.
func (j *Journal) Finish() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = appendFrame(j.buf[:0], frame{kind: kindSource}, nil)
	if err := j.write(true); err != nil {
		return err
	}
	j.source = nil
	return nil
}

// Close releases the folder.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.err, ErrClosed) {
		return nil
	}
	var err error
	if j.f != nil {
		if len(j.live) == 0 && j.size > journalFloor && j.err == nil {
			err = j.rewrite()
		}
		err = errors.Join(err, j.f.Close())
	}
	j.err = ErrClosed
	return errors.Join(err, j.lock.Close())
}

func (j *Journal) liveSpan(s span) {
	j.live = append(j.live, s)
	j.liveBytes += s.len
}

func (j *Journal) acknowledged(watermark uint64) {
	j.watermark = watermark
	for len(j.live) > 0 && j.live[0].last <= watermark {
		j.liveBytes -= j.live[0].len
		j.live = j.live[1:]
	}
}

// write appends the buffer to the file.
func (j *Journal) write(sync bool) error {
	if j.err != nil {
		return j.err
	}
	n, err := j.f.Write(j.buf)
	if err != nil && n > 0 {
		err = errors.Join(err, j.f.Truncate(j.size))
	}
	if err == nil && sync {
		err = j.f.Sync()
	}
	if err != nil {
		return j.fail(err)
	}
	j.size += int64(len(j.buf))
	if cap(j.buf) > journalFloor {
		j.buf = nil
	}
	return nil
}

// fail ends the use of the file: what is on disk is known to the next process only.
func (j *Journal) fail(err error) error {
	if err != nil {
		j.err = fmt.Errorf("buffer %s: %w", j.dir, err)
		return j.err
	}
	return nil
}

// rewrite makes the file anew with what is not acknowledged, and puts it in place of the old one.
func (j *Journal) rewrite() error {
	f, err := os.OpenFile(j.path+tempSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	live, size, err := j.copyTo(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(j.path+tempSuffix, j.path)
	}
	if err == nil {
		err = syncDir(j.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if j.f != nil {
		err = j.f.Close()
	}
	j.f, j.size, j.live = f, size, live
	return err
}

// copyTo writes what counts: where the numbers go on, the live frames, the watermark and the source.
func (j *Journal) copyTo(w io.Writer) (live []span, size int64, err error) {
	before := j.next - 1 // the highest number before the live frames
	if len(j.live) > 0 {
		before = j.live[0].first - 1
	}
	head := appendFrame([]byte(journalMagic), frame{kind: kindAcknowledged, number: before}, nil)
	if _, err := w.Write(head); err != nil {
		return nil, 0, err
	}
	size = int64(len(head))
	for _, s := range j.live {
		if _, err := io.Copy(w, io.NewSectionReader(j.f, s.from, s.len)); err != nil {
			return nil, 0, err
		}
		live = append(live, span{s.first, s.last, size, s.len})
		size += s.len
	}
	var tail []byte
	if j.watermark > before {
		tail = appendFrame(tail, frame{kind: kindAcknowledged, number: j.watermark}, nil)
	}
	tail = appendFrame(tail, frame{kind: kindSource, source: j.source}, nil)
	_, err = w.Write(tail)
	return live, size + int64(len(tail)), err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
