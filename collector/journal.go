package collector

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// ErrInUse says that another process has the journal.
var ErrInUse = errors.New("in use by another process")

// Batch is what goes under one number: at least one record, taken and acknowledged together.
type Batch struct {
	Records int
	Payload []byte // the records, as protocol.AppendRecord makes them
}

// JournalOptions bound a journal. Every zero value means the default named beside it.
type JournalOptions struct {
	// SegmentBytes is the size at which a new file is begun; default 8 MiB, and never more than a quarter of MaxBytes.
	SegmentBytes int64
	// MaxBytes is how many bytes of batches are kept on disk; default 1 GiB. One call of Append always fits, and a
	// mark of the watermark comes on top.
	MaxBytes int64
	// Random yields the bytes that instances are made of; default crypto/rand.
	Random io.Reader
}

func (o *JournalOptions) complete() error {
	fallback(&o.SegmentBytes, 8<<20)
	fallback(&o.MaxBytes, 1<<30)
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.SegmentBytes < 1 || o.MaxBytes < 1 {
		return fmt.Errorf("SegmentBytes is %d and MaxBytes %d, allowed is at least 1", o.SegmentBytes, o.MaxBytes)
	}
	o.SegmentBytes = min(o.SegmentBytes, max(1, o.MaxBytes/4))
	return nil
}

// Journal is the disk buffer of a collector: it keeps batches in a folder of its own, from Append until they are
// acknowledged, and with them what their numbers are. A batch is durable before its number is used. Any number of
// goroutines may use it.
//
// The folder holds segments, journal.N, each named by the id of its first batch. A segment is deleted when all in it is
// acknowledged, but never the one that is written to. After a failure of the disk the journal ends with that error, and
// only the next process knows what is stored; a disk that is full is waited for instead, as a full buffer is.
type Journal struct {
	dir    string
	o      JournalOptions
	lock   *os.File
	create func(path string) (segmentFile, error) // a new file to write to

	// Who holds the lead writes to the current segment and changes the list of them; mu guards what others look at.
	lead    chan struct{}
	f       segmentFile
	writing []byte
	marked  uint64 // the watermark on disk

	mu        sync.Mutex
	segments  []segment // rising; the last one is written to
	bytes     int64     // of all
	next      uint64
	watermark uint64
	source    []byte
	numbers   Numbers
	// Ids from unconfirmed on were stored since the last time that the ingress was reached. Confirmed: it was in this life.
	unconfirmed uint64
	confirmed   bool
	waiting     []*appending
	full        bool          // what waits does not fit
	freed       chan struct{} // closed, and made anew, when something was freed
	err         error         // after a failure that leaves the file unknown

	reading sync.Mutex
	cursor  cursor

	records uint64 // not acknowledged when it was opened
	cut     int64
	cutFile string
}

// segmentFile is what the journal needs of the file it writes to.
type segmentFile interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Close() error
}

// OpenJournal takes the folder for this process, makes it when there is none, and reads it. An unfinished write at its
// end is cut off and kept beside it, in journal.N.cut-M. The error is ErrInUse when another process has it; what is
// damaged before the end is an error that names file and offset, and is left alone. A folder of the format before this one
// is converted.
func OpenJournal(dir string, o JournalOptions) (*Journal, error) {
	j := &Journal{dir: dir, o: o, create: createFile, lead: make(chan struct{}, 1), next: 1, freed: make(chan struct{})}
	if err := j.o.complete(); err != nil {
		return nil, fmt.Errorf("buffer %s: %w", dir, err)
	}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("buffer %s: %w", dir, err)
	}
	return j, nil
}

func createFile(path string) (segmentFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
}

func (j *Journal) open() (err error) {
	if err := makeDir(j.dir); err != nil {
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
	j.cursor.next = j.watermark + 1
	return nil
}

// Held tells which batches are not acknowledged: those from the id first, and below next, which is the id of the next
// one.
func (j *Journal) Held() (first, next uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.watermark + 1, j.next
}

// Unconfirmed is the id from which on batches were stored since the ingress was last reached, when the journal was opened:
// if that is a copy which forgot its tail, the ingress may have others under their numbers.
func (j *Journal) Unconfirmed() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unconfirmed
}

// Records is how many records were not acknowledged when the journal was opened.
func (j *Journal) Records() uint64 { return j.records }

// Source is what the last Append said of where the next records come from; empty after Finish.
func (j *Journal) Source() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.source
}

// Cut is how many bytes were cut off the end when the journal was opened, and the file that keeps them. They are of
// writes that did not come to their end, or of last ones that were damaged later.
func (j *Journal) Cut() (bytes int64, file string) { return j.cut, j.cutFile }

// Numbers say under which numbers the batches go.
func (j *Journal) Numbers() Numbers {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.numbers
}

// Usage is how many bytes the journal has on disk, and whether an Append waits for room: in the buffer, or on the disk.
func (j *Journal) Usage() (bytes int64, full bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes, j.full
}

// Acknowledge forgets the batches up to the watermark, and tells how many records of them were never read. It does not
// wait for the disk: the watermark is durable with the next Append, and after a power cut some batches may be sent once
// more.
func (j *Journal) Acknowledge(watermark uint64) (unread int, err error) {
	if unread, err = j.skip(watermark); err != nil {
		return unread, err
	}
	j.mu.Lock()
	if j.err == nil && watermark >= j.next {
		j.mu.Unlock()
		panic(fmt.Sprintf("collector: watermark %d, and the next id is %d", watermark, j.next))
	}
	j.watermark = max(j.watermark, watermark)
	err = j.err
	j.mu.Unlock()
	if j.tryLead() {
		j.release()
	}
	return unread, err
}

// Finish says that the source of the records has ended: the next process starts with another one.
func (j *Journal) Finish() error {
	return j.store(frame{kind: kindSource}, func() { j.source = nil })
}

// Number fixes under which numbers all that is held goes, durably: the ingress has been reached, and has none of those
// that are not used yet.
func (j *Journal) Number(n Numbers) error {
	return j.store(frame{kind: kindNumbers, rest: n.append(nil)}, func() { j.numbers, j.confirmed = n, true })
}

// Renew draws a new instance, whose numbers the ingress has to say.
func (j *Journal) Renew() error {
	instance, err := newInstance(j.o.Random)
	if err != nil {
		return err
	}
	return j.Number(Numbers{Instance: instance})
}

// store makes a frame durable, and then what it means.
func (j *Journal) store(f frame, then func()) error {
	j.lead <- struct{}{}
	defer j.release()
	j.mu.Lock()
	f.source, f.watermark = j.source, j.watermark
	if f.kind == kindSource {
		f.source = nil
	}
	err := j.err
	j.mu.Unlock()
	if err != nil {
		return err
	}
	f.at = j.current().synced
	j.writing = appendFrame(j.writing[:0], f)
	if err := j.write(f.watermark, true); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	then()
	return nil
}

// Close releases the folder. Calls of Append that wait end with ErrClosed.
func (j *Journal) Close() error {
	j.lead <- struct{}{}
	defer func() { <-j.lead }()
	j.mu.Lock()
	before := j.err
	j.mu.Unlock()
	if errors.Is(before, ErrClosed) {
		return nil
	}
	j.end(ErrClosed)
	j.reading.Lock()
	defer j.reading.Unlock()
	err := j.cursor.close()
	if j.f != nil {
		err = errors.Join(err, j.f.Close())
	}
	return errors.Join(err, j.lock.Close())
}

// fail ends the use of the journal: what is on disk is known to the next process only.
func (j *Journal) fail(err error) error {
	err = fmt.Errorf("buffer %s: %w", j.dir, err)
	j.end(err)
	return err
}

// end answers all that wait, and what comes later, with an error.
func (j *Journal) end(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = err
	for _, a := range j.waiting {
		a.err = err
		close(a.done)
	}
	j.waiting, j.full = nil, false
}
