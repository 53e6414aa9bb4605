package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/protocol"
)

const (
	groupBytes = 1 << 20                // what waits is gathered up to this size for one write
	fullTime   = 500 * time.Millisecond // between two tries to write to a full disk
)

// appending is a call of Append that is not answered.
type appending struct {
	source  []byte
	batches []Batch
	size    int64
	first   uint64
	err     error
	done    chan struct{}
}

// Append makes batches durable under the next ids, together with where the next ones come from, and returns the id of
// the first. A crash leaves all of it or nothing. While they do not fit it waits; an error is that of ctx, with nothing
// stored, or why the journal ended. Calls at the same time share one write and one sync.
func (j *Journal) Append(ctx context.Context, source []byte, batches []Batch) (first uint64, err error) {
	a := &appending{source: source, batches: batches, size: frameHead + 40 + int64(len(source)), done: make(chan struct{})}
	for _, b := range batches {
		if b.Records < 1 {
			panic(fmt.Sprintf("collector: a batch of %d records", b.Records))
		}
		a.size += 20 + int64(len(b.Payload))
	}
	if err := j.enqueue(a); err != nil {
		return 0, err
	}
	for !a.answered() {
		select {
		case j.lead <- struct{}{}:
		case <-a.done:
			continue
		}
		freed := j.room()
		if ctx.Err() != nil && j.withdraw(a) {
			j.release()
			return 0, ctx.Err()
		}
		j.group()
		j.release()
		a.pause(ctx, freed)
	}
	return a.first, a.err
}

func (j *Journal) enqueue(a *appending) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	left := protocol.MaxID - j.next
	for _, other := range j.waiting { // they come first
		left -= uint64(len(other.batches))
	}
	if uint64(len(a.batches)) > left {
		return fmt.Errorf("buffer %s: no ids are left above %d", j.dir, j.next)
	}
	j.waiting = append(j.waiting, a)
	return nil
}

// pause waits until another try may go better, or there is nothing to try.
func (a *appending) pause(ctx context.Context, freed <-chan struct{}) {
	if a.answered() {
		return
	}
	timer := time.NewTimer(fullTime)
	defer timer.Stop()
	select {
	case <-freed:
	case <-timer.C:
	case <-a.done:
	case <-ctx.Done():
	}
}

func (a *appending) answered() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// room is closed when something is freed after this call.
func (j *Journal) room() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.freed
}

// withdraw takes back a call; the caller leads, so that it is not just being written.
func (j *Journal) withdraw(a *appending) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, other := range j.waiting {
		if other == a {
			j.waiting = append(j.waiting[:i:i], j.waiting[i+1:]...)
			j.full = j.full && len(j.waiting) > 0
			return true
		}
	}
	return false
}

func (j *Journal) tryLead() bool {
	select {
	case j.lead <- struct{}{}:
		return true
	default:
		return false
	}
}

// release ends the lead, after what acknowledgements made due meanwhile.
func (j *Journal) release() {
	for {
		j.tend()
		<-j.lead
		j.mu.Lock()
		due := j.watermark > j.marked && j.err == nil && j.f != nil
		j.mu.Unlock()
		if !due || !j.tryLead() {
			return
		}
	}
}

// group stores what fits of what waits, in one write and one sync. The caller leads.
func (j *Journal) group() {
	err := j.makeRoom()
	n, watermark := 0, uint64(0)
	if err == nil {
		n, watermark = j.gather()
	}
	if n > 0 {
		err = j.write(watermark, true)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return // all are answered
	}
	if err != nil || n == 0 {
		j.full = len(j.waiting) > 0
		return
	}
	for _, a := range j.waiting[:n] {
		a.first = j.next
		j.next += uint64(len(a.batches))
		j.source = bytes.Clone(a.source)
		close(a.done)
	}
	clear(j.waiting[:n])
	j.waiting = j.waiting[n:]
	j.full = false
}

// makeRoom begins a new segment when the current one is large.
func (j *Journal) makeRoom() error {
	s := j.current()
	j.mu.Lock()
	enough := len(j.waiting) == 0 || s.size < j.o.SegmentBytes || j.next == s.first // and so has no name for another
	j.mu.Unlock()
	if enough {
		return nil
	}
	if err := j.rotate(); err != nil {
		return err
	}
	j.tend()
	return nil
}

// gather makes one frame of the first of what waits, as much as fits, and tells how many calls that is. The frame says the
// watermark, too.
func (j *Journal) gather() (n int, watermark uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	room, size := j.o.MaxBytes-j.bytes, int64(0)
	alone := j.watermark+1 == j.next
	for _, a := range j.waiting {
		if size+a.size > room && !(alone && n == 0) || n > 0 && size+a.size > groupBytes {
			break
		}
		size += a.size
		n++
	}
	if n == 0 {
		return 0, 0
	}
	f := frame{kind: kindUnconfirmed, at: j.current().synced, watermark: j.watermark, number: j.next, source: j.waiting[n-1].source}
	if j.confirmed {
		f.kind = kindBatches
	}
	var at int
	j.writing, at = beginFrame(j.writing[:0], f)
	for _, a := range j.waiting[:n] {
		for _, b := range a.batches {
			j.writing = appendEntry(j.writing, b)
		}
	}
	j.writing = endFrame(j.writing, at)
	return n, j.watermark
}

// full tells errors of a disk without room, which goes away by itself.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// write appends the frame in the buffer to the current segment, in place of a mark that is not durable; the caller leads.
// The frame says the watermark. An error for which full is true left the file without the mark, and else as it was; any
// other ends the journal.
func (j *Journal) write(watermark uint64, sync bool) error {
	s := j.current()
	err := j.cutTo(s.synced)
	n := 0
	if err == nil {
		if n, err = j.f.Write(j.writing); err != nil && n > 0 {
			if bad := j.f.Truncate(s.synced); bad != nil {
				return j.fail(errors.Join(err, bad))
			}
		}
		if full(err) {
			return err
		}
	}
	if err == nil && sync {
		err = j.f.Sync()
	}
	if err != nil {
		return j.fail(err)
	}
	if s.size = s.synced + int64(n); sync {
		s.synced = s.size
	}
	j.mu.Lock()
	j.segments[len(j.segments)-1] = s
	j.bytes += int64(n)
	j.marked = watermark
	j.mu.Unlock()
	if cap(j.writing) > 2*groupBytes {
		j.writing = nil
	}
	return nil
}

// cutTo takes the mark that is behind the durable part away.
func (j *Journal) cutTo(size int64) error {
	s := j.current()
	if s.size == size {
		return nil
	}
	if err := j.f.Truncate(size); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bytes -= s.size - size
	s.size = size
	j.segments[len(j.segments)-1] = s
	return nil
}
