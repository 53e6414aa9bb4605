package stdout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// bufferSize is how much waits in memory between two commits, plus one delivery.
const bufferSize = 64 << 10

// Sink writes to one stream. Its methods are for one goroutine; a Txn may commit beside them.
type Sink struct {
	out sync.Mutex // whoever holds it writes to w
	w   io.Writer

	mu    sync.Mutex
	buf   []byte
	spare []byte
	err   error // the stream is broken or the sink closed
}

var _ sink.Sink = (*Sink)(nil)

// New makes a sink of w, which it never closes. When w has a Sync method, as a file has, Commit calls
// it where w can do it.
func New(w io.Writer) *Sink { return &Sink{w: w} }

// Traits says that this sink delivers at least once, and that records are lines.
func (s *Sink) Traits() sink.Traits { return sink.Traits{Lines: true} }

// Recover has nothing to undo.
func (s *Sink) Recover(context.Context, []byte) error { return nil }

// Begin opens a transaction; it does no I/O.
func (s *Sink) Begin(context.Context) (sink.Txn, error) { return txn{s}, nil }

// Close drops what is not committed.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf, s.err = nil, errors.New("stdout: closed")
	return nil
}

type txn struct{ *Sink }

// Write takes batches into the buffer, after it has emptied a full one.
func (t txn) Write(_ context.Context, d sink.Delivery) (int, error) {
	t.mu.Lock()
	full := len(t.buf) >= bufferSize
	t.mu.Unlock()
	if full {
		if err := t.flush(); err != nil {
			return 0, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return 0, t.err
	}
	for i, b := range d.Batches {
		if err := t.add(b); err != nil {
			return i, err
		}
	}
	return len(d.Batches), nil
}

func (s *Sink) add(b statemachine.Batch) error {
	start, index := len(s.buf), 0
	for record, err := range protocol.Records(b.Payload) {
		if err == nil && bytes.IndexByte(record, '\n') >= 0 {
			err = errors.New("it holds an LF, which ends a record here")
		}
		if err != nil {
			s.buf = s.buf[:start]
			return &sink.Refused{Batch: b.ID, Record: index, Err: err}
		}
		s.buf = append(append(s.buf, record...), '\n')
		index++
	}
	return nil
}

// Seal returns no position: there is no way back.
func (t txn) Seal() ([]byte, error) { return nil, nil }

// Commit writes everything out, and syncs a stream that can be synced.
func (t txn) Commit(context.Context) error {
	if err := t.flush(); err != nil {
		return err
	}
	f, ok := t.w.(interface{ Sync() error })
	if !ok {
		return nil
	}
	err := f.Sync()
	if err == nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil // a pipe or a terminal has nothing to sync
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fail(err)
}

// flush writes out what is in the buffer, and what comes then is buffered meanwhile. With no space
// left the rest stays in the buffer, and nothing is lost.
func (s *Sink) flush() error {
	s.out.Lock()
	defer s.out.Unlock()
	s.mu.Lock()
	b, err := s.buf, s.err
	s.buf, s.spare = s.spare, nil
	s.mu.Unlock()
	if err != nil {
		return err
	}
	n, err := s.w.Write(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.spare = b[:0]
		return nil
	case disk.Full(err):
		s.buf = append(b[n:], s.buf...)
		return fmt.Errorf("stdout: %w: %w", sink.ErrTransient, err)
	default:
		return s.fail(err)
	}
}

// fail ends the use of the stream; the caller holds mu.
func (s *Sink) fail(err error) error {
	s.err = fmt.Errorf("stdout: %w", err)
	return s.err
}
