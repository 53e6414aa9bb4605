package collector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

const chunkBytes = 64 << 10 // read at once, or one frame if that is longer

// cursor is how far the batches of a journal were read.
type cursor struct {
	next    uint64 // id of the next batch to yield
	first   uint64 // the segment it is in
	f       *os.File
	at      int64  // where chunk ends in it
	chunk   []byte // read, and not parsed yet
	entries words  // of the frame it is in
	id      uint64 // of the next entry
}

func (c *cursor) close() error {
	f := c.f
	*c = cursor{next: c.next}
	if f == nil {
		return nil
	}
	return f.Close()
}

// Read yields the next batch that was not acknowledged when the journal was opened, or that was appended since: each
// once, in order, and its id. It returns false when there is none for now. The batch is the caller's. It is for one
// reader.
func (j *Journal) Read() (id uint64, b Batch, ok bool, err error) {
	j.reading.Lock()
	defer j.reading.Unlock()
	return j.read()
}

// skip reads what is acknowledged and was not read, so that its segments can go, and tells how many records that is.
func (j *Journal) skip(watermark uint64) (records int, err error) {
	j.reading.Lock()
	defer j.reading.Unlock()
	for j.cursor.next <= watermark {
		_, b, ok, err := j.read()
		if err != nil || !ok {
			return records, err
		}
		records += b.Records
	}
	return records, nil
}

// read is Read; the caller holds reading.
func (j *Journal) read() (id uint64, b Batch, ok bool, err error) {
	c := &j.cursor
	for {
		for len(c.entries.rest) > 0 {
			id, c.id = c.id, c.id+1
			if b, ok = c.entries.entry(); !ok {
				return 0, Batch{}, false, j.damaged(errNonsense)
			}
			if id == c.next {
				c.next++
				return id, b, true, nil
			}
		}
		limit, ok, err := j.extent()
		if err != nil || !ok {
			return 0, Batch{}, false, err
		}
		if err := j.nextFrame(limit); err != nil {
			return 0, Batch{}, false, err
		}
	}
}

// extent opens the segment that the next batch is in, and tells how much of it is durable; false: there is none for now.
func (j *Journal) extent() (limit int64, ok bool, err error) {
	c := &j.cursor
	j.mu.Lock()
	err, next := j.err, j.next
	var s segment
	for _, other := range j.segments {
		if other.first <= c.next {
			s = other
		}
	}
	j.mu.Unlock()
	if err != nil || c.next >= next {
		return 0, false, err
	}
	if c.f != nil && c.first == s.first {
		return s.synced, true, nil
	}
	if err := c.close(); err != nil {
		return 0, false, j.fail(err)
	}
	if c.f, err = os.Open(j.path(s.first)); err != nil {
		return 0, false, j.fail(err)
	}
	c.first, c.at = s.first, int64(len(journalMagic))
	return s.synced, true, nil
}

// nextFrame takes the next frame of the segment; another one is there, below limit.
func (j *Journal) nextFrame(limit int64) error {
	c := &j.cursor
	need := frameHead
	if len(c.chunk) >= frameHead {
		need += int(binary.LittleEndian.Uint32(c.chunk))
	}
	if len(c.chunk) < need {
		return j.fill(need, limit)
	}
	f, size, err := parseFrame(c.chunk)
	if err != nil {
		return j.damaged(err)
	}
	c.chunk = c.chunk[size:]
	if f.kind == kindBatches || f.kind == kindUnconfirmed {
		c.entries, c.id = words{rest: f.rest}, f.number
	}
	return nil
}

// fill reads on. What was read before stays as it is: batches lie in it.
func (j *Journal) fill(need int, limit int64) error {
	c := &j.cursor
	room := limit - c.at
	if int64(need-len(c.chunk)) > room {
		return j.damaged(errTorn)
	}
	chunk := make([]byte, len(c.chunk)+int(min(room, int64(max(need, chunkBytes)-len(c.chunk)))))
	n := copy(chunk, c.chunk)
	if _, err := c.f.ReadAt(chunk[n:], c.at); err != nil && !errors.Is(err, io.EOF) {
		return j.fail(err)
	}
	c.chunk, c.at = chunk, c.at+int64(len(chunk)-n)
	return nil
}

// damaged ends the journal, as what was written is not what is read.
func (j *Journal) damaged(err error) error {
	c := &j.cursor
	return j.fail(fmt.Errorf("%s: damaged at offset %d: %w"+advise, j.path(c.first), c.at-int64(len(c.chunk)), err))
}
