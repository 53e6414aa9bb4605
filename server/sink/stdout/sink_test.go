package stdout

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/server/sink/sinktest"
	"github.com/tidemark/tidemark/statemachine"
)

// stream is a stream that can be full, stall, or break.
type stream struct {
	mu       sync.Mutex
	b        bytes.Buffer
	err      error
	room     int // bytes that go through before err
	syncErr  error
	synced   int
	stalled  chan struct{}
	released chan struct{}
	once     sync.Once
}

func (w *stream) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stalled != nil {
		w.once.Do(func() { close(w.stalled) })
		<-w.released
	}
	if w.err != nil {
		n := min(w.room, len(b))
		w.room = 0
		w.b.Write(b[:n])
		return n, w.err
	}
	return w.b.Write(b)
}

func (w *stream) Sync() error {
	w.synced = w.b.Len()
	return w.syncErr
}

func (w *stream) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := strings.Split(w.b.String(), "\n")
	return list[:len(list)-1]
}

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		w := &stream{}
		return sinktest.Harness{
			Open: func() (sink.Sink, error) { return New(w), nil },
			Read: func() ([]string, error) { return w.lines(), nil },
			Fill: func() func() {
				w.err, w.room = syscall.ENOSPC, 70
				return func() { w.err = nil }
			},
			Stall: func() (<-chan struct{}, func()) {
				w.stalled, w.released = make(chan struct{}), make(chan struct{})
				return w.stalled, func() { close(w.released) }
			},
		}
	})
}

func write(t *testing.T, s *Sink, records ...string) (sink.Txn, error) {
	t.Helper()
	txn, err := s.Begin(context.Background())
	require.NoError(t, err)
	b := statemachine.Batch{ID: 1, Records: len(records)}
	for _, r := range records {
		b.Payload = protocol.AppendRecord(b.Payload, []byte(r))
	}
	_, err = txn.Write(context.Background(), sink.Delivery{Collector: "a", Batches: []statemachine.Batch{b}})
	return txn, err
}

func TestSaysThatItDeliversAtLeastOnce(t *testing.T) {
	require.Equal(t, sink.Traits{ExactlyOnce: false, Lines: true}, New(&stream{}).Traits())
}

func TestCommitWritesAndSyncs(t *testing.T) {
	w := &stream{}
	txn, err := write(t, New(w), "a", "b")
	require.NoError(t, err)
	require.Empty(t, w.lines(), "written before the commit")
	require.NoError(t, txn.Commit(context.Background()))
	require.Equal(t, []string{"a", "b"}, w.lines())
	require.Equal(t, 4, w.synced)
}

func TestPipeNeedsNoSync(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	txn, err := write(t, New(w), "through a pipe")
	require.NoError(t, err)
	require.NoError(t, txn.Commit(context.Background()))
	require.NoError(t, w.Close())
	var got bytes.Buffer
	_, err = got.ReadFrom(r)
	require.NoError(t, err)
	require.Equal(t, "through a pipe\n", got.String())
	require.NoError(t, r.Close())
}

func TestMemoryIsBounded(t *testing.T) {
	w := &stream{}
	s := New(w)
	for range 100 {
		_, err := write(t, s, strings.Repeat("x", 10_000))
		require.NoError(t, err)
		require.Less(t, len(s.buf), bufferSize+10_003)
	}
}

// A broken pipe and a failed sync are not tried again.
func TestBrokenStreamStaysBroken(t *testing.T) {
	for name, w := range map[string]*stream{"write": {err: syscall.EPIPE}, "sync": {syncErr: syscall.EIO}} {
		t.Run(name, func(t *testing.T) {
			s := New(w)
			txn, err := write(t, s, "a")
			require.NoError(t, err)
			err = txn.Commit(context.Background())
			require.Error(t, err)
			require.NotErrorIs(t, err, sink.ErrTransient)
			w.err, w.syncErr = nil, nil
			require.True(t, errors.Is(txn.Commit(context.Background()), errors.Unwrap(err)))
			_, err = write(t, s, "b")
			require.Error(t, err)
		})
	}
}
