package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/server/store"
)

// barrier seals the sink's transaction in the same instant as it takes the images of the streams
// that changed: what becomes durable is exactly what the images say was delivered. Later deliveries
// belong to the next checkpoint.
func (p *pipeline) barrier(ctx context.Context) error {
	next := &sealed{txn: p.txn, checkpoint: store.Checkpoint{Number: p.number + 1}}
	p.deltas = p.deltas[:0]
	for _, st := range p.takeDirty() {
		if delta := st.snapshot(next.checkpoint.Number, &p.deltas); delta != nil {
			next.streams = append(next.streams, st)
			next.checkpoint.Changes = append(next.checkpoint.Changes, store.Change{Collector: st.name, Delta: delta})
		}
	}
	if len(next.streams) == 0 {
		return nil
	}
	var err error
	if next.checkpoint.Position, err = p.txn.Seal(); err != nil {
		return err
	}
	if p.txn, err = p.server.options.Sink.Begin(ctx); err != nil {
		return err
	}
	p.number++
	p.committing, p.lastBarrier = true, time.Now()
	p.sealed <- next
	return nil
}

// snapshot begins checkpoint c for the stream and appends its image to deltas, if there is
// something to store.
func (st *stream) snapshot(c uint64, deltas *[]byte) []byte {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.anchorStored.Load() || !st.machine.Dirty() {
		return nil
	}
	st.machine.Snapshot(c)
	from := len(*deltas)
	*deltas = st.machine.AppendDelta(*deltas)
	return (*deltas)[from:]
}

// commit is the second goroutine of the pipeline: the sink commits, the store saves, the streams
// complete, and then the replies may say so.
func (p *pipeline) commit(ctx context.Context) {
	for next := range p.sealed {
		begin := time.Now()
		p.progress.begin(begin)
		if err := p.persist(ctx, next); err != nil {
			p.progress.end()
			if ctx.Err() == nil {
				p.server.fail(fmt.Errorf("checkpoint %d: %w", next.checkpoint.Number, err))
			}
			return
		}
		for _, st := range next.streams {
			st.complete(next.checkpoint.Number, time.Now(), &p.server.memory)
		}
		p.progress.end()
		p.server.counters.checkpoints.Observe(time.Since(begin).Seconds())
		p.done <- struct{}{}
	}
}

// persist makes the checkpoint durable, trying again for as long as the failure is one that passes.
func (p *pipeline) persist(ctx context.Context, next *sealed) error {
	err := p.attempt(ctx, "sink", func() error { return next.txn.Commit(ctx) })
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	p.progress.failed(nil)
	err = p.attempt(ctx, "store", func() error { return p.server.options.Store.Save(ctx, &next.checkpoint) })
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func (p *pipeline) attempt(ctx context.Context, what string, do func() error) error {
	for failures := 1; ; failures++ {
		err := do()
		if err == nil || !errors.Is(err, sink.ErrTransient) && !errors.Is(err, store.ErrTransient) {
			return err
		}
		wait := p.backoff(failures)
		p.progress.failed(fmt.Errorf("%s: %w", what, err))
		p.server.counters.checkpointFailures.WithLabelValues(what).Inc()
		p.server.log.Warn("the checkpoint will be tried again", "part", what, "error", err.Error(), "failures", failures, "again", wait.String())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}
