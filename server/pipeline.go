package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/server/store"
)

// pipeline moves batches from the streams to the sink and makes checkpoints of it. Two goroutines:
// deliver and commit.
type pipeline struct {
	server *Server
	over   sync.WaitGroup

	wake     chan struct{} // signals that a list below grew
	sealed   chan *sealed  // from deliver to commit; one at a time
	done     chan struct{} // from commit to deliver: the checkpoint completed
	draining chan struct{} // closed: end when nothing is left to do
	hurried  atomic.Bool   // the interval between checkpoints is not waited for any more

	mu      sync.Mutex
	waiting []*stream // have something to deliver
	dirty   []*stream // may have something to store

	// Of the goroutine deliver alone.
	txn         sink.Txn
	turns       []*stream // of this round
	number      uint64    // of the last checkpoint begun
	deltas      []byte    // reused, since one checkpoint is written at a time
	committing  bool
	lastBarrier time.Time
	retry       *stream // its delivery must be tried again, at retryAt
	retryAt     time.Time
	failures    int // of the sink in a row
	ending      bool

	progress progress
}

// sealed is what a barrier fixed: a transaction of the sink and the images that belong to it.
type sealed struct {
	txn        sink.Txn
	checkpoint store.Checkpoint
	streams    []*stream
}

func newPipeline(s *Server, txn sink.Txn, number uint64) *pipeline {
	p := &pipeline{
		server: s, txn: txn, number: number,
		wake: make(chan struct{}, 1), sealed: make(chan *sealed, 1), done: make(chan struct{}, 1), draining: make(chan struct{}),
	}
	p.over.Go(func() { p.deliver(s.life) })
	p.over.Go(func() { p.commit(s.life) })
	return p
}

// touched says that a stream has something to deliver or to store, perhaps.
func (p *pipeline) touched(st *stream) {
	p.markWaiting(st)
	p.markDirty(st)
}

func (p *pipeline) markWaiting(st *stream) { p.mark(st, &st.waiting, &p.waiting) }

func (p *pipeline) markDirty(st *stream) { p.mark(st, &st.dirty, &p.dirty) }

// mark puts the stream on a list, unless it is there. A mark is seen only after its stream is on the
// list: a barrier that comes right after must find there all that was delivered.
func (p *pipeline) mark(st *stream, marked *atomic.Bool, list *[]*stream) {
	if marked.Load() {
		return
	}
	p.mu.Lock()
	if !marked.Load() {
		*list = append(*list, st)
		marked.Store(true)
	}
	p.mu.Unlock()
	signal(p.wake)
}

// take empties one of the lists. The flags fall before the streams are looked at, so that what comes
// later puts its stream on the list again.
func (p *pipeline) take(list *[]*stream, marked func(*stream) *atomic.Bool) []*stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := slices.Clone(*list)
	*list = (*list)[:0]
	for _, st := range taken {
		marked(st).Store(false)
	}
	return taken
}

func (p *pipeline) takeWaiting() []*stream {
	return p.take(&p.waiting, func(st *stream) *atomic.Bool { return &st.waiting })
}

func (p *pipeline) takeDirty() []*stream {
	return p.take(&p.dirty, func(st *stream) *atomic.Bool { return &st.dirty })
}

func (p *pipeline) listed() (waiting, dirty int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting), len(p.dirty)
}

// due tells whether a barrier can be taken: the last checkpoint has finished, the interval is over,
// and there may be something to store.
func (p *pipeline) due() bool {
	select {
	case <-p.done:
		p.committing = false
	default:
	}
	_, dirty := p.listed()
	return !p.committing && dirty > 0 && p.rest() <= 0
}

// rest is how long the next barrier has to wait for the interval.
func (p *pipeline) rest() time.Duration {
	if p.hurried.Load() {
		return 0
	}
	return p.server.options.CheckpointInterval - time.Since(p.lastBarrier)
}

// hurry says that the server stops: replies and its end wait for checkpoints, not for the interval.
func (p *pipeline) hurry() {
	p.hurried.Store(true)
	signal(p.wake)
}

// drained tells whether a pipeline that is to end has nothing left that can be done.
func (p *pipeline) drained() bool { return p.ending && p.idle() }

func (p *pipeline) idle() bool {
	waiting, dirty := p.listed()
	return waiting == 0 && dirty == 0 && !p.committing && p.retry == nil
}

// pause waits until there is something to do; false: the pipeline is to end.
func (p *pipeline) pause(ctx context.Context) bool {
	waiting, dirty := p.listed()
	if waiting > 0 && p.retry == nil {
		return true
	}
	var timers [2]<-chan time.Time
	if p.retry != nil {
		timer := time.NewTimer(time.Until(p.retryAt))
		defer timer.Stop()
		timers[0] = timer.C
	}
	if dirty > 0 && !p.committing {
		timer := time.NewTimer(p.rest())
		defer timer.Stop()
		timers[1] = timer.C
	}
	draining := p.draining
	if p.ending {
		draining = nil
	}
	select {
	case <-p.wake:
	case <-p.done:
		p.committing = false
	case <-timers[0]:
	case <-timers[1]:
	case <-draining:
		p.ending = true
	case <-ctx.Done():
		return false
	}
	return true
}

// drain lets the pipeline finish what can be finished, and stops it when ctx ends.
func (p *pipeline) drain(ctx context.Context) error {
	close(p.draining)
	finished := make(chan struct{})
	go func() { p.over.Wait(); close(finished) }()
	select {
	case <-finished: // the life goes on: held replies have to be sent
	case <-ctx.Done():
		p.server.end()
		<-finished
	}
	if err := p.server.Err(); err != nil || p.idle() {
		return err
	}
	return fmt.Errorf("stopped before everything was delivered and checkpointed: %w", ctx.Err())
}
