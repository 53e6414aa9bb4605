package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Load is all collectors of one measurement, in this process.
type Load struct {
	settings   *Settings
	collectors []*Collector
	interval   time.Duration // between two batches of one collector; 0: as fast as the window lets them
	counting   atomic.Bool   // latencies are kept
}

// A Collector makes records and remembers how many are acknowledged. It survives its connections.
type Collector struct {
	load      *Load
	index     int
	sent      atomic.Uint64   // batches, counted from the first connection on
	acked     atomic.Uint64   // batches, whole ones
	records   atomic.Uint64   // acknowledged ones, those of a batch that is not yet whole too
	latencies []time.Duration // of acknowledged batches; one goroutine at a time
}

// newLoad makes the collectors. A rate of 0 means as many records a second as are acknowledged.
func newLoad(s *Settings, rate float64) *Load {
	l := &Load{settings: s}
	if rate > 0 {
		l.interval = time.Duration(float64(s.Collectors*s.Batch) / rate * float64(time.Second))
	}
	for i := range s.Collectors {
		l.collectors = append(l.collectors, &Collector{load: l, index: i})
	}
	return l
}

// acknowledged is how many records are, of all collectors.
func (l *Load) acknowledged() (records uint64) {
	for _, c := range l.collectors {
		records += c.records.Load()
	}
	return records
}

// run connects all collectors and sends until stop is closed; then it waits until everything sent is acknowledged.
// It ends early when the context does, or with the first error. A nil error means that all is acknowledged.
func (l *Load) run(ctx context.Context, server Server, stop <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, c := range l.collectors {
		all.Go(func() {
			if err := c.run(ctx, server, stop); err != nil {
				cancel(fmt.Errorf("collector %d: %w", c.index, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

var errFinished = errors.New("everything is acknowledged")

// run is one connection of a collector.
func (c *Collector) run(ctx context.Context, server Server, stop <-chan struct{}) error {
	batch := uint64(c.load.settings.Batch)
	base := c.acked.Load()
	conn, err := server.Connect(ctx, c.index, base*batch)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		conn.Close()
	})
	flight := make(chan time.Time, c.load.settings.Window) // when each batch on its way was due
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if err := c.send(ctx, conn, base, flight, stop); err != nil {
			cancel(err)
		}
	}()
	received := make(chan struct{})
	go func() {
		defer close(received)
		cancel(c.receive(conn, base, flight, sent))
	}()
	// The last acknowledgement may have come before the sender knew that it was the last: then nobody reads any more.
	<-sent
	if c.acked.Load() == c.sent.Load() {
		cancel(errFinished)
	}
	<-received
	<-closed
	if err := context.Cause(ctx); !errors.Is(err, errFinished) {
		return err
	}
	return nil
}

// send sends again what is not acknowledged, and then new batches until stop is closed.
func (c *Collector) send(ctx context.Context, conn Conn, base uint64, flight chan<- time.Time, stop <-chan struct{}) error {
	s := c.load.settings
	b := newBatch(c.index, s.Batch, s.Size)
	// Collectors begin apart, so that a rate is not one burst of all of them an interval.
	due := time.Now().Add(c.load.interval * time.Duration(c.index) / time.Duration(s.Collectors))
	for n := base; ; n++ {
		if n >= c.sent.Load() { // a new one
			select {
			case <-stop:
				return nil
			default:
			}
		}
		if c.load.interval == 0 {
			due = time.Now()
		} else if !pause(ctx, stop, time.Until(due)) {
			return nil
		}
		select {
		case flight <- due:
		case <-ctx.Done():
			return nil
		}
		if n >= c.sent.Load() {
			c.sent.Store(n + 1)
		}
		b.number(n*uint64(s.Batch) + 1)
		if err := conn.Send(b); err != nil {
			return err
		}
		due = due.Add(c.load.interval)
	}
}

// pause waits, and tells whether there is more to do.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	case <-ctx.Done():
		return false
	}
}

// receive counts acknowledgements until nothing is on its way and nothing more will be.
func (c *Collector) receive(conn Conn, base uint64, flight <-chan time.Time, sent <-chan struct{}) error {
	batch := uint64(c.load.settings.Batch)
	for {
		records, err := conn.Acknowledged()
		if err != nil {
			return err
		}
		now, batches := time.Now(), records/batch
		c.records.Store(base*batch + records)
		for n := c.acked.Load() - base; n < batches; n++ {
			due := <-flight
			if c.load.counting.Load() {
				c.latencies = append(c.latencies, now.Sub(due))
			}
		}
		c.acked.Store(base + batches)
		select {
		case <-sent:
			if c.acked.Load() == c.sent.Load() {
				return errFinished
			}
		default:
		}
	}
}
