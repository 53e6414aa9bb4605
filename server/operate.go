package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark/tidemark/statemachine"
)

// ErrUnknownCollector says that no stream of that name exists.
var ErrUnknownCollector = errors.New("unknown collector")

// ErrOutOfRange says that a number is not one a batch can have.
var ErrOutOfRange = errors.New("out of range")

// Resume gives the sink of a halted stream another chance. It is no error when the stream is not halted.
func (s *Server) Resume(collector string) error {
	st := s.lookup(collector)
	if st == nil {
		return fmt.Errorf("%w: %q", ErrUnknownCollector, collector)
	}
	st.mu.Lock()
	halted := st.machine.CanResume()
	if halted {
		st.machine.Resume()
		st.notBefore = time.Time{}
	}
	st.mu.Unlock()
	if halted {
		s.log.Warn("resumed by an operator", "collector", collector)
		s.pipeline.touched(st)
	}
	return nil
}

// Lost is what Forget(collector, below) would give up.
func (s *Server) Lost(collector string, below uint64) ([]statemachine.Range, error) {
	st, err := s.forgettable(collector, below)
	if err != nil {
		return nil, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.machine.Lost(below), nil
}

// Forget gives up every number below the given one that is not here: the collector holds nothing
// there. It says what is lost, aloud, and returns when that is stored. On a stream nobody has sent to
// yet it says where the numbers begin. A number far above what was received makes all below it stale
// for good: show Lost first.
func (s *Server) Forget(ctx context.Context, collector string, below uint64) ([]statemachine.Range, error) {
	st, err := s.forgettable(collector, below)
	if err != nil {
		return nil, err
	}
	if err := s.anchor(st); err != nil {
		return nil, err
	}
	st.mu.Lock()
	lost := st.machine.Lost(below)
	if len(lost) > 0 {
		st.machine.Rebase(below)
		st.rebased = st.machine.Last() + 1
	}
	rebased := st.rebased // by this call, or by one that did not wait
	if c := st.connection; c != nil {
		c.session.Forget(below)
		if c.number != 0 && len(lost) > 0 {
			c.startOver("an operator gave up batches")
		}
	}
	st.mu.Unlock()
	s.lose(collector, "given up by an operator", lost...)
	s.pipeline.touched(st)
	for { // until a checkpoint that began after the rebase has completed
		_, completed, changed := st.watch()
		if completed >= rebased {
			return lost, nil
		}
		select {
		case <-changed:
		case <-s.life.Done():
			return lost, fmt.Errorf("given up, but not stored yet: %w", cmp.Or(s.Err(), ErrClosed))
		case <-ctx.Done():
			return lost, fmt.Errorf("given up, but not stored yet: %w", ctx.Err())
		}
	}
}

func (s *Server) forgettable(collector string, below uint64) (*stream, error) {
	if below < 1 || below > statemachine.MaxNumber {
		return nil, fmt.Errorf("%w: below is %d, allowed is 1 to %d", ErrOutOfRange, below, uint64(statemachine.MaxNumber))
	}
	st := s.lookup(collector)
	if st == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknownCollector, collector)
	}
	return st, nil
}
