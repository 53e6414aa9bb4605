package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// ErrClosed is what Serve returns after Shutdown.
var ErrClosed = errors.New("server: closed")

// Server is the ingress. Its methods may be called by many goroutines at once.
type Server struct {
	options  Options
	log      *slog.Logger
	pipeline *pipeline
	counters *counters
	memory   atomic.Int64    // payload bytes held by all streams
	numbers  atomic.Uint64   // of connections of dialect 2
	seats    atomic.Int64    // taken by connections of dialect 2
	life     context.Context // ends when nothing more may be delivered, stored or waited for
	end      context.CancelFunc
	lines    bool // the sink's records must not hold LF

	mu          sync.Mutex
	streams     map[string]*stream
	listeners   map[net.Listener]struct{}
	connections map[*connection]struct{}
	draining    bool
	ready       bool

	serving  sync.WaitGroup // connections
	reading  sync.WaitGroup // connections that may still bring a batch
	settled  chan struct{}  // closed when a stopping server can't cover more than it has
	failed   chan struct{}  // closed when the server can't go on
	failure  error          // valid after failed is closed
	failOnce sync.Once
	stopOnce sync.Once
	stopped  error // what Shutdown returns
}

// New loads the store, brings the sink to the last checkpoint, restores all streams and starts the
// pipeline. On success the server owns sink and store, and Shutdown must be called in the end; on an
// error they are still the caller's.
func New(ctx context.Context, o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{
		options: o, log: o.Log, counters: newCounters(), streams: map[string]*stream{},
		listeners: map[net.Listener]struct{}{}, connections: map[*connection]struct{}{},
		failed: make(chan struct{}), settled: make(chan struct{}), lines: o.Sink.Traits().Lines,
	}
	s.life, s.end = context.WithCancel(context.Background())
	stored, err := o.Store.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load the store: %w", err)
	}
	if err := o.Sink.Recover(ctx, stored.Position); err != nil {
		return nil, fmt.Errorf("recover the sink: %w", err)
	}
	for name, image := range stored.Images {
		machine, err := statemachine.Restore(&s.options.Limits, image)
		if err != nil {
			return nil, fmt.Errorf("restore the stream of %q: %w", name, err)
		}
		since := time.Time{}
		if machine.Committed() < machine.Received() {
			since = time.Now()
		}
		st := &stream{name: name, machine: machine, behindSince: since, taken: make(chan struct{}, 1)}
		st.anchorStored.Store(machine.Anchored())
		st.seat, st.seatStored = statemachine.RestoreSeat(stored.Seats[name]), true
		_, bytes := machine.Held()
		s.memory.Add(bytes)
		s.streams[name] = st
	}
	txn, number, err := s.begin(ctx, stored)
	if err != nil {
		return nil, err
	}
	s.pipeline = newPipeline(s, txn, number)
	for _, st := range s.streams {
		s.pipeline.touched(st)
	}
	if !o.Sink.Traits().ExactlyOnce {
		s.log.Warn("this sink is at least once: after a crash, records that no checkpoint covers can be there twice")
	}
	s.log.Info("restored", "checkpoint", stored.Number, "streams", len(stored.Images))
	return s, nil
}

// begin opens the first transaction. Where the sink stands must be in the store before anything is
// written to it: a crash before the first checkpoint would leave bytes behind that nobody can explain.
func (s *Server) begin(ctx context.Context, stored *store.Stored) (sink.Txn, uint64, error) {
	txn, err := s.options.Sink.Begin(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("begin the first transaction: %w", err)
	}
	position, err := txn.Seal()
	if err == nil {
		err = txn.Commit(ctx)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("ask the sink where it stands: %w", err)
	}
	number := stored.Number
	if !bytes.Equal(position, stored.Position) {
		number++
		if err := s.options.Store.Save(ctx, &store.Checkpoint{Number: number, Position: position}); err != nil {
			return nil, 0, fmt.Errorf("store where the sink stands: %w", err)
		}
	}
	txn, err = s.options.Sink.Begin(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("begin the first transaction: %w", err)
	}
	return txn, number, nil
}

// stream is the collector's, made when it is first asked for.
func (s *Server) stream(name string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[name]
	if st == nil {
		st = &stream{name: name, machine: statemachine.New(&s.options.Limits), taken: make(chan struct{}, 1)}
		s.streams[name] = st
	}
	return st
}

// lookup is the collector's stream, or nil.
func (s *Server) lookup(name string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[name]
}

// Serve accepts connections until Shutdown, and then returns ErrClosed, or until the server can't go
// on: then it returns why. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	if err := s.open(l); err != nil {
		l.Close()
		return err
	}
	defer s.shut(l)
	s.log.Info("listening", "address", l.Addr().String())
	for {
		conn, err := l.Accept()
		if err == nil {
			s.admit(conn)
			continue
		}
		if why := s.Err(); why != nil {
			return why
		}
		if s.closing() {
			return ErrClosed
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Out of descriptors or the like: the connections that are open go on meanwhile.
		s.counters.grumble(s.log, "", "accept failed", "error", err.Error())
		select {
		case <-time.After(s.options.Backoff.Min):
		case <-s.failed:
			return s.failure
		}
	}
}

func (s *Server) open(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch err := s.Err(); {
	case err != nil: // it may have failed before it was served
		return err
	case s.draining:
		return ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.ready = true
	return nil
}

func (s *Server) shut(l net.Listener) {
	l.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	s.ready = s.ready && len(s.listeners) > 0
}

func (s *Server) closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// admit serves a connection on a goroutine of its own, if there may be one more.
func (s *Server) admit(conn net.Conn) {
	if s.enter(conn) {
		return
	}
	conn.Close()
	if !s.closing() && s.Err() == nil {
		s.counters.refused.WithLabelValues("max-connections").Inc()
		s.counters.grumble(s.log, "", "connection refused", "reason", "max-connections", "allowed", s.options.MaxConnections)
	}
}

func (s *Server) enter(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining || s.Err() != nil || len(s.connections) >= s.options.MaxConnections {
		return false
	}
	c := newConnection(s, conn)
	s.connections[c] = struct{}{}
	s.reading.Add(1)
	s.serving.Go(func() {
		c.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.connections, c)
	})
	return true
}

// Err is why the server can't go on, or nil.
func (s *Server) Err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

// fail ends the server: whatever is not answered yet will not be, and the next life tells.
func (s *Server) fail(err error) {
	s.failOnce.Do(func() {
		s.log.Error("the server can't go on", "error", err)
		s.failure = err
		close(s.failed)
		s.end()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ready = false
		for l := range s.listeners {
			l.Close()
		}
		for c := range s.connections {
			c.conn.Close()
		}
	})
}

// Shutdown stops accepting, answers what connections have been read, delivers what is queued, completes
// a last checkpoint, and closes sink and store. When ctx ends first it stops at once and returns why, if
// anything was left; the next life then asks collectors for it. Only the first call does anything;
// others wait for it and return the same.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopped = s.stop(ctx) })
	return s.stopped
}

func (s *Server) stop(ctx context.Context) error {
	s.drain()
	s.await(ctx, &s.reading)
	err := s.pipeline.drain(ctx)
	close(s.settled)
	s.await(ctx, &s.serving) // replies that were held back are sent
	s.end()
	s.mu.Lock()
	for c := range s.connections {
		c.conn.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
	return errors.Join(err, s.options.Sink.Close(), s.options.Store.Close())
}

// await waits for connections, as long as ctx allows and the server can go on.
func (s *Server) await(ctx context.Context, connections *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { connections.Wait(); close(done) }()
	select {
	case <-done:
	case <-s.failed:
	case <-ctx.Done():
	}
}

// drained tells whether a stopping server can't cover more than it has.
func (s *Server) drained() bool {
	select {
	case <-s.settled:
		return true
	default:
		return false
	}
}

// drain closes the listeners and makes every connection stop reading.
func (s *Server) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining, s.ready = true, false
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.connections {
		c.stop()
	}
	s.pipeline.hurry()
}
