package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

// maxAuthLine bounds what a connection may send before it is known.
const maxAuthLine = 4 << 10

// errBye ends a connection after its last reply was sent.
var errBye = errors.New("connection is over")

// connection serves one collector. In dialect 1 bytes become requests, requests become replies, in the same order; in
// dialect 2 messages go both ways. One goroutine reads, decides and writes. What comes later is written by another one:
// in dialect 1, with Durable, replies that had to wait for a checkpoint, in dialect 2 the ACKs.
type connection struct {
	server *Server
	conn   net.Conn
	input  input
	arena  arena
	out    outbox
	stream *stream // nil until the peer is known

	stopping atomic.Bool

	// Dialect 1.
	parser  protocol.Parser
	session statemachine.Session // under stream.mu
	batches int                  // answered RECEIVED
	commits int                  // answered

	// Dialect 2.
	parser2 protocol.Parser2
	number  uint64          // for the seat; 0: dialect 1
	ready   bool            // it has had the seat
	left    bool            // it has said BYE; written under stream.mu
	over    atomic.Bool     // nothing more is read: it was taken over, or BYE was answered
	window  uint64          // in bytes, as it was told; under stream.mu once it is ready
	nacked  map[uint64]bool // wanted numbers that were refused for good: these it may skip
}

func newConnection(s *Server, conn net.Conn) *connection {
	c := &connection{server: s, conn: conn, parser: protocol.Parser{MaxLine: min(maxAuthLine, s.options.MaxLineBytes)}}
	c.out = outbox{conn: conn, counters: s.counters, came: make(chan struct{}, 1), passed: make(chan struct{}, 1), writing: make(chan struct{}, 1)}
	c.out.late = func() { c.timedOut("write-timeout") }
	c.out.timeout.Store(int64(s.options.WriteTimeout))
	return c
}

// serve lives as long as the connection.
func (c *connection) serve() {
	defer c.conn.Close()
	quiet := sync.OnceFunc(c.server.reading.Done)
	defer quiet()
	// Absolute: a peer that sends a byte now and then stays unknown no longer.
	c.readWithin(c.server.options.AuthTimeout)
	ctx, cancel := context.WithCancel(c.server.life)
	defer cancel()
	switch dialect, err := c.dialect(); {
	case dialect == 2:
		c.serve2(ctx, quiet)
	case err == nil:
		c.serve1(ctx, cancel, quiet)
	}
}

// dialect reads until it is known.
func (c *connection) dialect() (int, error) {
	for {
		if d := protocol.Dialect(c.input.unread()); d != 0 {
			return d, nil
		}
		if err := c.read(); err != nil {
			return 0, err
		}
	}
}

// serve1 serves a collector in dialect 1, as long as the connection lives.
func (c *connection) serve1(ctx context.Context, cancel context.CancelFunc, quiet func()) {
	c.run(ctx, c.authenticate) // ends without a stream, or with one and the seat
	if c.stream == nil {
		c.out.flush()
		c.linger()
		return
	}
	c.stream.sits(c)
	defer c.stream.leave()
	c.server.log.Debug("connected", "collector", c.stream.name)
	c.parser.MaxLine = c.server.options.MaxLineBytes
	sent := make(chan struct{})
	close(sent)
	if c.server.options.Durable {
		sent = make(chan struct{})
		go func() { defer close(sent); defer cancel(); c.release(ctx) }()
	}
	err := c.run(ctx, c.request)
	quiet()
	c.out.flush()
	if c.stopping.Load() {
		c.out.finish() // replies that wait for the last checkpoint are still sent
	} else {
		cancel()
		if !errors.As(err, new(net.Error)) && !errors.Is(err, io.EOF) {
			c.linger() // the server ended it: the last reply says why
		}
		c.conn.Close() // the peer may not read, and the seat is wanted
	}
	<-sent
	c.server.log.Debug("disconnected", "collector", c.stream.name, "reason", err.Error())
}

// run reads requests and hands each to handle, until that ends it or the peer does.
func (c *connection) run(ctx context.Context, handle func(context.Context, protocol.Request, error) error) error {
	for {
		req, n, bad := c.parser.Next(c.input.unread())
		c.input.used(n)
		if req.Command != 0 || bad != nil {
			if err := handle(ctx, req, bad); err != nil {
				return err
			}
			continue
		}
		if err := c.out.flush(); err != nil {
			return err
		}
		if c.stopping.Load() {
			return errBye
		}
		if err := c.read(); err != nil {
			return err
		}
	}
}

func (c *connection) read() error {
	if c.stream != nil {
		c.readWithin(c.server.options.IdleTimeout)
	}
	err := c.input.fill(c.conn, 0)
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.stopping.Load() {
		reason := "idle-timeout"
		if c.stream == nil {
			reason = "auth-timeout"
		}
		c.timedOut(reason)
	}
	return err
}

// timedOut counts and logs that a time limit ends the connection.
func (c *connection) timedOut(reason string) {
	c.server.counters.refused.WithLabelValues(reason).Inc()
	c.server.counters.grumble(c.server.log, c.name(), "connection closed", "reason", reason)
}

func (c *connection) name() string {
	if c.stream == nil {
		return ""
	}
	return c.stream.name
}

// readWithin bounds the reads that follow.
func (c *connection) readWithin(d time.Duration) { c.readBy(time.Now().Add(d)) }

func (c *connection) readBy(t time.Time) {
	c.conn.SetReadDeadline(t)
	if c.stopping.Load() { // stop may have come between the two
		c.stop()
	}
}

// stop makes the connection end after it has answered what it has read.
func (c *connection) stop() {
	c.stopping.Store(true)
	c.conn.SetReadDeadline(time.Unix(1, 0))
	c.out.hurry()
}

// linger closes the connection in a way that lets the peer read the last reply: what it still sends
// is read, for a while, since closing with unread bytes would take the reply back.
func (c *connection) linger() {
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		c.readWithin(lingerTime)
		io.CopyN(io.Discard, c.conn, maxLinger)
	}
}

const (
	maxLinger  = 1 << 20
	lingerTime = time.Second
)
