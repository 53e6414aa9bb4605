package server

import (
	"sync"
	"time"
)

// progress tells people what the checkpoint being written is doing, and the sink.
type progress struct {
	mu    sync.Mutex
	since time.Time // zero: none is being written
	err   error     // of its last try
	sink  error     // why no delivery succeeds now
}

func (p *progress) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.err = now, nil
}

func (p *progress) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.err = time.Time{}, nil
}

func (p *progress) sinkFailed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sink = err
}

func (p *progress) now() (writing bool, err, sink error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.since.IsZero(), p.err, p.sink
}
