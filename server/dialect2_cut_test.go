package server

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// A collector that follows the protocol loses nothing and doubles nothing, wherever a link or a life ends.

// scripted is such a collector, as small as it can be: it has batches up to last, each with its number as record, and
// goes on by HELLO and WELCOME after each break.
type scripted struct {
	name  string
	last  uint64
	acked uint64
	in    []byte
	out   protocol.ReplyParser2
}

var errScript = errors.New("the ingress broke the protocol")

// converse lives as long as a connection. It ends without an error when everything is acknowledged and BYE was said.
func (s *scripted) converse(conn net.Conn) error {
	defer conn.Close()
	s.in, s.out = nil, protocol.ReplyParser2{}
	hello := &protocol.Hello{Collector: s.name, Instance: "i", Token: s.name, First: s.acked + 1, Next: s.last + 1}
	if _, err := conn.Write(protocol.AppendHello2(nil, hello)); err != nil {
		return err
	}
	r, err := s.next(conn)
	switch {
	case err != nil:
		return err
	case r.Code == protocol.CodeGoaway:
		return errors.New("not now")
	case r.Code != protocol.CodeWelcome || r.Welcome.Committed < s.acked || len(r.Welcome.Lost) > 0:
		return fmt.Errorf("%w: %+v after ACK %d", errScript, r, s.acked)
	}
	if _, err := conn.Write(s.answer(r.Welcome)); err != nil {
		return err
	}
	for {
		switch r, err := s.next(conn); {
		case err != nil:
			return err
		case r.Code == protocol.CodeAck && r.Watermark >= s.acked && r.Watermark <= s.last:
			s.acked = r.Watermark
		case r.Code == protocol.CodeBye && s.acked == s.last:
			return nil
		case r.Code == protocol.CodeGoaway || r.Code == protocol.CodeError && r.Reason == protocol.CodeFenced:
		default:
			return fmt.Errorf("%w: %+v after ACK %d", errScript, r, s.acked)
		}
	}
}

// answer is READY, what is missing or above received, and BYE.
func (s *scripted) answer(w *protocol.Welcome) []byte {
	s.acked = w.Committed
	all := protocol.AppendReady2(nil)
	send := func(first, last uint64) {
		for id := first; id <= last; id++ {
			all = append(all, batch2(id, fmt.Sprint(id))...)
		}
	}
	for _, r := range w.Missing {
		send(r.First, r.Last)
	}
	send(w.Received+1, s.last)
	return protocol.AppendBye2(all)
}

func (s *scripted) next(conn net.Conn) (protocol.Reply2, error) {
	for {
		r, n, err := s.out.Next(s.in)
		s.in = s.in[n:]
		if err != nil || r.Code != 0 {
			return r, err
		}
		buf := make([]byte, 1024)
		n, err = conn.Read(buf)
		if s.in = append(s.in, buf[:n]...); n == 0 {
			return r, err
		}
	}
}

// cut is a link that breaks after so many bytes one way or the other.
type cut struct {
	net.Conn
	out, in   int // left; below 0: without end
	wrote, at int // so far
}

func (c *cut) Write(b []byte) (int, error) {
	if c.out < 0 {
		n, err := c.Conn.Write(b)
		c.wrote += n
		return n, err
	}
	n, err := c.Conn.Write(b[:min(len(b), c.out)])
	c.out -= n
	if err == nil && n < len(b) || c.out == 0 {
		c.Conn.Close()
		return n, net.ErrClosed
	}
	return n, err
}

func (c *cut) Read(b []byte) (int, error) {
	if c.in < 0 {
		n, err := c.Conn.Read(b)
		c.at += n
		return n, err
	}
	if c.in == 0 {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b[:min(len(b), c.in)])
	c.in -= n
	return n, err
}

// finish lets the collector go on until it is done.
func (s *scripted) finish(connect func() (net.Conn, error)) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		conn, err := connect()
		if err != nil {
			return err
		}
		conn.SetDeadline(deadline)
		if err := s.converse(conn); err == nil || errors.Is(err, errScript) {
			return err
		}
	}
	return errors.New("never done")
}

// The link is cut after every byte of a conversation of 20 batches, in both directions.
func TestB34CutAtEveryByte(t *testing.T) {
	const batches = 20
	w := newWorld()
	ts := start(t, w, func(o *Options) {
		o.Auth = func(token []byte) (string, bool) { return string(token), true }
	})
	whole := &cut{out: -1, in: -1}
	var err error
	whole.Conn, err = ts.connect()
	require.NoError(t, err)
	require.NoError(t, (&scripted{name: "c-out-0000", last: batches}).converse(whole))
	require.Greater(t, whole.wrote, 400)
	require.Greater(t, whole.at, 150)

	type job struct {
		name    string
		out, in int
	}
	jobs := make(chan job)
	var all sync.WaitGroup
	var cuts atomic.Int64
	for range 8 {
		all.Go(func() {
			for j := range jobs {
				s := &scripted{name: j.name, last: batches}
				first := true
				err := s.finish(func() (net.Conn, error) {
					conn, err := ts.connect()
					if err != nil || !first {
						return conn, err
					}
					first = false
					cuts.Add(1)
					return &cut{Conn: conn, out: j.out, in: j.in}, nil
				})
				if err != nil {
					t.Errorf("%+v: %v", j, err)
				}
			}
		})
	}
	for at := 1; at < whole.wrote; at++ {
		jobs <- job{fmt.Sprintf("c-out-%04d", at), at, -1}
	}
	for at := 0; at < whole.at+100; at++ { // ACKs may come in more messages than they did
		jobs <- job{fmt.Sprintf("c-in-%04d", at), -1, at}
	}
	close(jobs)
	all.Wait()
	require.EqualValues(t, whole.wrote-1+whole.at+100, cuts.Load())
	require.Len(t, ts.Streams(), int(cuts.Load())+1)
	got := map[string][]string{}
	for _, record := range w.durable() {
		name, _, _ := strings.Cut(record, "/")
		got[name] = append(got[name], record)
	}
	require.Len(t, got, int(cuts.Load())+1)
	for name, list := range got {
		require.Equal(t, records(name, 1, batches), list)
	}
	require.Zero(t, ts.metric("tidemark_lost_batches_total", ""))
	ts.released()
}

// A collector that gives up on a slow sink and comes again with all it has: each number is held once.
func TestB34ReconnectsWhileTheSinkIsSlow(t *testing.T) {
	w := newWorld()
	write := block()
	w.write = write.write
	ts := start(t, w, nil)
	goroutines, _ := resources()
	var c *client2
	for round := range 50 {
		var welcome *protocol.Welcome
		c, welcome = ts.seat("i", 1, 21)
		if round > 0 {
			require.EqualValues(t, 20, welcome.Received)
			require.Empty(t, welcome.Missing)
		}
		c.batches(1, 20) // also those that need not come
		c.ready()
		require.Equal(t, 20, ts.status("a").Held)
	}
	until(t, "the old ones are gone", func() bool { return len(ts.live()) == 1 })
	backTo(t, goroutines+3, 1<<20) // the connection, its reader
	write.open()
	c.acked(20)
	require.Equal(t, records("a", 1, 20), w.durable())
}

// A server that is killed at any moment: what was acknowledged is durable, and all is there once in the end.
func TestB40KilledAtAnyMoment2(t *testing.T) {
	const last, lives = 1000, 25 // all of them fit into the window
	w := newWorld()
	random := seeded(t)
	s := &scripted{name: "a", last: last}
	life := 0
	for ; s.acked < last; life++ {
		ts := start(t, w, func(o *Options) {
			o.Auth = func(token []byte) (string, bool) { return string(token), true }
		})
		conn, err := ts.connect()
		require.NoError(t, err)
		link := &doomed{Conn: conn, step: 1 + random.IntN(200), left: random.IntN(6000), kill: ts.kill}
		if life >= lives {
			link.left = 1 << 30
		}
		err = s.converse(link)
		require.False(t, errors.Is(err, errScript), "%v", err)
		require.GreaterOrEqual(t, len(w.durable()), int(s.acked), "acknowledged is durable")
		ts.kill()
	}
	require.Equal(t, records("a", 1, last), w.durable())
	require.Greater(t, life, 2, "it was not killed")
}

// doomed is a link that takes few bytes at a time, and kills the server after some of them.
type doomed struct {
	net.Conn
	step, left int
	kill       func()
}

func (d *doomed) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		if d.left <= 0 {
			d.kill()
		}
		var wrote int
		wrote, err = d.Conn.Write(b[n:min(len(b), n+d.step)])
		n += wrote
		d.left -= wrote
	}
	return n, err
}
