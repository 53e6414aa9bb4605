package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// stream is one collector's stream inside the server: the state machine, the lock it is used under,
// and the one seat for a connection. No I/O is done while mu is held.
type stream struct {
	name string

	// taken holds one token while the seat is: by a connection of dialect 1, or, while occupied is set, by those of
	// dialect 2, which hand it on among themselves as seat says.
	taken chan struct{}

	anchoring sync.Mutex // held while the anchor is stored: an older image must not land on a newer one

	mu          sync.Mutex
	machine     *statemachine.Stream
	seat        statemachine.Seat // of dialect 2
	seatStored  bool              // the store has the seat as it is
	occupied    bool
	flying      []statemachine.Batch // the delivery in flight, while it is tried again
	sinkError   error                // why the last delivery failed
	behindSince time.Time            // since when the watermark has waited; zero: it does not
	completed   uint64               // number of the last checkpoint that completed
	rebased     uint64               // checkpoint from which on the last rebase is stored; 0: there was none
	changed     chan struct{}        // closed when a checkpoint completes; nil: nobody waits
	connection  *connection          // that writes; nil also while its seat is being stored
	notBefore   time.Time            // no delivery before: the sink refused the last one

	anchorStored atomic.Bool // asked for each batch, without the lock

	waiting atomic.Bool // in the list of streams to be delivered
	dirty   atomic.Bool // in the list of streams that may have something to store
}

// sit takes the seat, waiting a while for its holder to go.
func (st *stream) sit(ctx context.Context, wait time.Duration) bool {
	select {
	case st.taken <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case st.taken <- struct{}{}:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// sits says who has the seat.
func (st *stream) sits(c *connection) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.connection = c
}

func (st *stream) leave() {
	st.sits(nil)
	<-st.taken
}

// anchor makes sure that the stream has a first number and that the store knows it, as must be
// before the first RECEIVED.
func (s *Server) anchor(st *stream) error {
	if st.anchorStored.Load() {
		return nil
	}
	st.anchoring.Lock()
	defer st.anchoring.Unlock()
	if st.anchorStored.Load() {
		return nil
	}
	st.mu.Lock()
	if st.machine.CanAnchor() {
		first := uint64(1)
		if n, ok := s.options.First[st.name]; ok {
			first = n
		}
		st.machine.Anchor(first)
	}
	change := store.Change{Collector: st.name, Delta: st.machine.AppendDelta(nil)}
	st.mu.Unlock()

	if err := s.options.Store.Anchor(s.life, change); err != nil {
		if !errors.Is(err, store.ErrTransient) && s.life.Err() == nil {
			s.fail(fmt.Errorf("store the anchor of %q: %w", st.name, err))
		}
		return err
	}
	st.anchorStored.Store(true)
	return nil
}

// watch is the watermark, the last completed checkpoint, and a channel that is closed with the next.
func (st *stream) watch() (committed, completed uint64, changed <-chan struct{}) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.changed == nil {
		st.changed = make(chan struct{})
	}
	return st.machine.Committed(), st.completed, st.changed
}

// complete closes checkpoint c, gives back the memory of the payloads that the stream lets go, and wakes who
// waits for it: a collector that hears of it at once finds room.
func (st *stream) complete(c uint64, now time.Time, memory *atomic.Int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	before := st.machine.Committed()
	_, held := st.machine.Held()
	st.machine.Complete(c)
	_, left := st.machine.Held()
	memory.Add(left - held)
	if st.machine.Committed() == st.machine.Received() {
		st.behindSince = time.Time{}
	} else if st.machine.Committed() != before {
		st.behindSince = now
	}
	st.completed = c
	st.push()
	if st.changed != nil {
		close(st.changed)
		st.changed = nil
	}
}
