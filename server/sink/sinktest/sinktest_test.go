package sinktest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// world is where a fake sink delivers to; bug is what is wrong with the sink.
type world struct {
	bug     string
	mu      sync.Mutex
	records []string
	aliases [][]byte
	room    int // batches, when full
	full    bool
	stalled chan struct{}
	release chan struct{}
}

func (w *world) harness() Harness {
	return Harness{
		Open: func() (sink.Sink, error) { return &fake{world: w}, nil },
		Read: func() ([]string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			list := append([]string(nil), w.records...)
			for _, b := range w.aliases {
				list = append(list, string(b))
			}
			return list, nil
		},
		Fill: func() func() {
			w.full, w.room = w.bug != "never full", 2
			return func() { w.full = false }
		},
		Stall: func() (<-chan struct{}, func()) {
			w.stalled, w.release = make(chan struct{}), make(chan struct{})
			return w.stalled, func() { close(w.release) }
		},
	}
}

// fake is a sink in memory.
type fake struct {
	*world
	closed bool
}

type fakeTxn struct{ *fake }

func (f *fake) Traits() sink.Traits {
	return sink.Traits{ExactlyOnce: true, Lines: f.bug != "lines" && f.bug != "takes anything"}
}

func (f *fake) Recover(_ context.Context, position []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	keep := 0
	if position != nil {
		keep = int(binary.LittleEndian.Uint32(position))
	}
	switch {
	case f.bug == "does not undo":
	case f.bug == "loses all":
		f.records = nil
	case f.bug == "undoes one too many":
		f.records = f.records[:max(0, keep-1)]
	case keep > len(f.records):
		return errors.New("records are missing")
	default:
		f.records = f.records[:keep]
	}
	return nil
}

func (f *fake) Begin(context.Context) (sink.Txn, error) { return fakeTxn{f}, nil }

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = f.bug != "lives on"
	return nil
}

func (f fakeTxn) Write(_ context.Context, d sink.Delivery) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, errors.New("closed")
	}
	for i, b := range d.Batches {
		if f.full {
			if f.room--; f.room < 0 {
				f.room = 1
				return f.outOfRoom(i, b)
			}
		}
		list, err := f.take(b)
		if err != nil && f.bug != "takes anything" {
			if f.bug == "keeps half a batch" {
				f.records = append(f.records, list...)
			}
			return i, err
		}
		if f.bug == "wrong order" && len(f.records) > 0 {
			f.records = append(list, f.records...)
			continue
		}
		f.records = append(f.records, list...)
	}
	if f.bug == "counts wrong" {
		return 0, nil
	}
	return len(d.Batches), nil
}

func (f fakeTxn) outOfRoom(i int, b statemachine.Batch) (int, error) {
	switch f.bug {
	case "full for good":
		return i, errors.New("full")
	case "keeps a part when full":
		list, _ := f.take(b)
		f.records = append(f.records, list[:1]...)
	}
	return i, fmt.Errorf("full: %w", sink.ErrTransient)
}

func (f fakeTxn) take(b statemachine.Batch) (list []string, err error) {
	for r, err := range protocol.Records(b.Payload) {
		if err == nil && f.Traits().Lines && strings.Contains(string(r), "\n") {
			err = errors.New("LF")
		}
		if err != nil {
			return list, &sink.Refused{Batch: b.ID, Record: len(list), Err: err}
		}
		switch f.bug {
		case "trims":
			r = []byte(strings.TrimSpace(string(r)))
		case "keeps the buffer":
			f.aliases = append(f.aliases, r)
			continue
		case "delivers twice":
			list = append(list, string(r))
		}
		list = append(list, string(r))
	}
	return list, nil
}

func (f fakeTxn) Seal() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return binary.LittleEndian.AppendUint32(nil, uint32(len(f.records))), nil
}

func (f fakeTxn) Commit(context.Context) error {
	switch f.bug {
	case "commit drops":
		f.mu.Lock()
		f.records = f.records[:max(0, len(f.records)-3)]
		f.mu.Unlock()
	case "commit fails":
		return errors.New("no")
	}
	if f.stalled != nil {
		if f.bug == "holds up writing" {
			f.mu.Lock()
			defer f.mu.Unlock()
		}
		close(f.stalled)
		<-f.release
	}
	return nil
}

// run is what Run does, without a testing.T that would fail.
func run(bug string) (failed []string) {
	for _, c := range Checks() {
		if err := c.Run((&world{bug: bug}).harness()); err != nil {
			failed = append(failed, c.Name)
		}
	}
	return failed
}

func TestGoodSinksPass(t *testing.T) {
	for _, kind := range []string{"", "lines"} {
		require.Empty(t, run(kind))
		Run(t, func(*testing.T) Harness { return (&world{bug: kind}).harness() })
	}
}

func TestBrokenSinksAreCaught(t *testing.T) {
	before := patience
	patience = 20 * time.Millisecond
	t.Cleanup(func() { patience = before })
	for _, bug := range []string{
		"does not undo", "loses all", "undoes one too many", "lives on", "wrong order", "counts wrong", "takes anything",
		"keeps half a batch", "keeps the buffer", "delivers twice", "trims", "commit drops", "commit fails",
		"full for good", "keeps a part when full", "never full", "holds up writing",
	} {
		t.Run(bug, func(t *testing.T) {
			failed := run(bug)
			t.Log(failed)
			require.NotEmpty(t, failed)
		})
	}
}
