package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// maxEmit bounds a delivery in batches, so that the streams get their turns.
const maxEmit = 512

// deliver is the first goroutine of the pipeline: it gives each stream's queue to the sink in turn,
// and takes the barrier whenever the last checkpoint has finished. Being alone at it, it needs no
// lock over many streams: what the sink took is what it settled.
func (p *pipeline) deliver(ctx context.Context) {
	defer close(p.sealed)
	for ctx.Err() == nil {
		if err := p.round(ctx); err != nil {
			if ctx.Err() == nil {
				p.server.fail(err)
			}
			return
		}
		if p.due() {
			if err := p.barrier(ctx); err != nil {
				if ctx.Err() == nil {
					p.server.fail(fmt.Errorf("barrier: %w", err))
				}
				return
			}
		}
		if p.drained() || !p.pause(ctx) {
			return
		}
	}
}

// round gives one delivery to each stream that waits. A delivery that must be tried again holds up
// all others: the sink takes nothing now.
func (p *pipeline) round(ctx context.Context) error {
	if p.retry == nil {
		p.turns = append(p.turns, p.takeWaiting()...)
	} else if time.Now().Before(p.retryAt) {
		return nil
	} else {
		p.turns = append([]*stream{p.retry}, p.turns...)
		p.retry = nil
	}
	for len(p.turns) > 0 && p.retry == nil && ctx.Err() == nil {
		st := p.turns[0]
		p.turns = p.turns[1:]
		if err := p.give(ctx, st); err != nil {
			return fmt.Errorf("deliver the stream of %q: %w", st.name, err)
		}
	}
	return nil
}

// give writes one delivery of a stream to the sink and settles it.
func (p *pipeline) give(ctx context.Context, st *stream) error {
	batches := st.emit()
	if batches == nil {
		return nil
	}
	taken, err := p.txn.Write(ctx, sink.Delivery{Collector: st.name, Batches: batches})
	var refused *sink.Refused
	switch {
	case taken < 0 || taken > len(batches) || (err == nil) != (taken == len(batches)):
		return fmt.Errorf("the sink broke its contract: it took %d of %d batches with error %v", taken, len(batches), err)
	case err == nil:
		p.failures = 0
		p.progress.sinkFailed(nil)
	case errors.Is(err, sink.ErrTransient):
		p.failures++
		p.server.counters.sinkFailures.WithLabelValues("transient").Inc()
		p.progress.sinkFailed(err)
		p.server.counters.grumble(p.server.log, st.name, "the sink will be tried again", "error", err.Error(), "failures", p.failures)
	case errors.As(err, &refused): // which is no outage
		p.failures = 0
		p.progress.sinkFailed(nil)
		p.server.counters.sinkFailures.WithLabelValues("refused").Inc()
	default:
		return err
	}
	p.settle(st, taken, err)
	return nil
}

// emit is the stream's delivery in flight, a new one if there is none.
func (st *stream) emit() []statemachine.Batch {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.flying == nil && !time.Now().Before(st.notBefore) {
		if n := min(st.machine.Queued(), maxEmit); st.machine.CanEmit(n) {
			st.flying = st.machine.Emit(n)
		}
	}
	return st.flying
}

// settle tells the stream what the sink took, and when it is its turn again.
func (p *pipeline) settle(st *stream, taken int, err error) {
	transient := errors.Is(err, sink.ErrTransient)
	if transient {
		p.retry, p.retryAt = st, time.Now().Add(p.backoff(p.failures))
	}
	st.mu.Lock()
	st.sinkError = err
	if transient && taken == 0 { // not a failed delivery: it stays in flight for as long as it takes
		st.mu.Unlock()
		return
	}
	st.flying = nil
	st.machine.Settle(taken)
	halted, queued := st.machine.Halted(), st.machine.Queued()
	wait := p.backoff(max(1, st.machine.Nacks()))
	if err != nil && !transient {
		st.notBefore = time.Now().Add(wait)
	}
	st.mu.Unlock()
	p.markDirty(st)
	switch {
	case transient:
	case halted:
		p.server.log.Error("the stream is halted: the sink refuses its next batch", "collector", st.name,
			"error", err.Error(), "command", "tidemark resume "+st.name)
	case err != nil:
		p.server.log.Warn("the sink refused a batch", "collector", st.name, "error", err.Error(), "again", wait.String())
		time.AfterFunc(wait, func() { p.touched(st) })
	case queued > 0:
		p.markWaiting(st)
	}
}

func (p *pipeline) backoff(failures int) time.Duration {
	return p.server.options.Backoff.wait(failures, p.server.options.Jitter())
}
