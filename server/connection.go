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

// connection serves one collector in dialect 1: bytes become requests, requests become replies, in
// the same order. One goroutine reads, decides and writes; with Durable a second one sends replies
// that had to wait for a checkpoint.
type connection struct {
	server *Server
	conn   net.Conn
	parser protocol.Parser
	input  input
	arena  arena
	out    outbox

	stream  *stream              // nil until it is authenticated
	session statemachine.Session // under stream.mu

	stopping atomic.Bool
	batches  int // answered RECEIVED
	commits  int // answered
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
	err := c.input.fill(c.conn)
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
func (c *connection) readWithin(d time.Duration) {
	c.conn.SetReadDeadline(time.Now().Add(d))
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
