package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

type txn struct{ *Sink }

// Write appends the records with one write(2). When the disk is full in the middle of it, the file is
// cut back to its last whole batch.
func (t *txn) Write(_ context.Context, d sink.Delivery) (int, error) {
	if err := t.usable(); err != nil {
		return 0, err
	}
	refused := t.encode(d.Batches)
	if len(t.buf) > 0 {
		n, err := t.f.Write(t.buf)
		if err != nil {
			return t.partly(n, err)
		}
		t.grow(t.buf)
	}
	if refused != nil {
		return len(t.ends), refused
	}
	return len(t.ends), nil
}

// partly keeps the whole batches among the n bytes that went through.
func (t *txn) partly(n int, err error) (int, error) {
	whole := sort.SearchInts(t.ends, n+1)
	keep := 0
	if whole > 0 {
		keep = t.ends[whole-1]
	}
	if cut := t.f.Truncate(t.size + int64(keep)); cut != nil || !disk.Full(err) {
		return 0, t.fail(errors.Join(err, cut))
	}
	t.grow(t.buf[:keep])
	return whole, fmt.Errorf("%w: %w", sink.ErrTransient, err)
}

// encode fills buf with the batches up to the first one that is refused.
func (s *Sink) encode(batches []statemachine.Batch) *sink.Refused {
	s.buf, s.ends = s.buf[:0], s.ends[:0]
	for _, b := range batches {
		start, index := len(s.buf), 0
		for record, err := range protocol.Records(b.Payload) {
			if err == nil && s.options.Framing == LF && bytes.IndexByte(record, '\n') >= 0 {
				err = errLF
			}
			if err != nil {
				s.buf = s.buf[:start]
				return &sink.Refused{Batch: b.ID, Record: index, Err: err}
			}
			if s.options.Framing == Length {
				s.buf = binary.AppendUvarint(s.buf, uint64(len(record)))
			}
			s.buf = append(s.buf, record...)
			if s.options.Framing == LF {
				s.buf = append(s.buf, '\n')
			}
			index++
		}
		s.ends = append(s.ends, len(s.buf))
	}
	return nil
}

var errLF = errors.New("it holds an LF, which ends a record in this file; framing=length allows it")

// grow accounts for bytes that were appended.
func (s *Sink) grow(b []byte) {
	s.size += int64(len(b))
	s.tail = append(s.tail, b[max(0, len(b)-tailSize):]...)
	if over := len(s.tail) - tailSize; over > 0 {
		s.tail = s.tail[:copy(s.tail, s.tail[over:])]
	}
}

// Seal returns the position, and refuses when someone else changed the file.
func (t *txn) Seal() ([]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	info, err := t.fs.Stat(t.path)
	switch {
	case err != nil:
		return nil, t.fail(fmt.Errorf("it was removed or renamed by someone else: %w", err))
	case info.Inode != t.inode:
		return nil, t.fail(fmt.Errorf("%s: it was replaced by someone else: inode %d is now %d", t.path, t.inode, info.Inode))
	case info.Size != t.size:
		return nil, t.fail(fmt.Errorf("%s: it was changed by someone else: the size should be %d and is %d", t.path, t.size, info.Size))
	}
	return t.position().encode(), nil
}

// Commit syncs the file. After a failed sync the kernel may have dropped what it could not write, so
// a second one would prove nothing: the file is not used again.
func (t *txn) Commit(context.Context) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := t.f.Sync(); err != nil {
		return t.fail(err)
	}
	return nil
}
