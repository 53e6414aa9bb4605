package collector

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// options are those of a client of a peer; no jitter.
func (p *peer) options() Options {
	return Options{Dialect: 1, Token: "token", Dial: p.dial, Jitter: func() float64 { return 0 }}
}

func send(c *Client, records ...[]byte) error {
	_, err := c.Send(context.Background(), records...)
	return err
}

func startClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := Dial(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestClientSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		c := startClient(t, p.options())
		record := []byte("a\r")
		require.NoError(t, send(c, record, []byte("")))
		record[0] = 'x' // the client has its own
		s := p.next()
		s.expect("__BATCH__:1:a\r", "__BATCH__:2:")
		s.say("RECEIVED", "RECEIVED")
		s.expect("__COMMIT__:1")
		s.say("ACK:1")
		s.expect("__COMMIT__:2")
		s.say("ACK:2")
		require.NoError(t, c.Flush(t.Context()))
		require.Equal(t, Status{Stats: Stats{Records: 2, Acknowledged: 2, Sent: 2}, Connected: true}, c.Status())
		require.NoError(t, c.Close())
		require.ErrorIs(t, send(c, []byte("b")), ErrClosed)
		require.ErrorIs(t, c.Flush(t.Context()), ErrClosed)
	})
}

// An idle connection that ends is nothing to talk about; the next record dials again, at once.
func TestClientDialsWhenNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		c := startClient(t, p.options())
		synctest.Wait()
		require.Empty(t, p.conns, "nothing is held")
		require.NoError(t, send(c, []byte("a")))
		s := p.next()
		go s.serve()
		require.NoError(t, c.Flush(t.Context()))
		s.conn.Close()
		synctest.Wait()
		require.Empty(t, p.conns)
		before := time.Now()
		require.NoError(t, send(c, []byte("b")))
		go p.next().serve()
		require.NoError(t, c.Flush(t.Context()))
		require.Less(t, time.Since(before), 10*time.Millisecond)
		require.Equal(t, uint64(1), c.Status().Reconnects)
	})
}

// B34: EOF, RST and a time-out while waiting for each kind of reply mean "unknown": all that is held comes again.
func TestB34UnknownOutcome(t *testing.T) {
	ends := map[string]func(*side){
		"EOF": func(s *side) { s.conn.Close() },
		"RST": func(s *side) { s.conn.(*net.TCPConn).SetLinger(0); s.conn.Close() },
		"time-out": func(s *side) { // the client gives up
			_, err := s.in.ReadByte()
			require.Error(t, err)
			s.conn.Close()
		},
		"half a reply": func(s *side) { s.conn.Write([]byte("RECEI")); s.conn.Close() },
	}
	waits := map[string]func(*side){
		"AUTH":   func(s *side) { s.expect("__AUTH__:token") },
		"BATCH":  func(s *side) { s.expect("__AUTH__:token"); s.say("ACK"); s.expect("__BATCH__:1:a", "__BATCH__:2:b") },
		"BATCH2": func(s *side) { waitsBatch(s); s.say("RECEIVED"); s.expect("__COMMIT__:1") },
		"COMMIT": func(s *side) { waitsBatch(s); s.say("RECEIVED", "RECEIVED"); s.expect("__COMMIT__:1") },
	}
	for wait, until := range waits {
		for end, finish := range ends {
			t.Run(wait+" "+end, func(t *testing.T) {
				p := newPeer(t)
				c := startClient(t, Options{
					Dialect: 1, Address: p.listen(), Token: "token", Timeout: 100 * time.Millisecond,
					Backoff: Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond},
				})
				require.NoError(t, send(c, []byte("a"), []byte("b")))
				for range 3 {
					s := <-p.conns
					until(s)
					finish(s)
				}
				status := c.Status()
				require.Zero(t, status.Acknowledged, "nothing is forgotten")
				s := p.next()
				s.expect("__BATCH__:1:a", "__BATCH__:2:b")
				s.say("RECEIVED", "RECEIVED")
				s.expect("__COMMIT__:1")
				s.say("ACK:2")
				require.NoError(t, c.Flush(t.Context()))
				require.NoError(t, c.Close())
				s.conn.Close()
			})
		}
	}
}

func waitsBatch(s *side) {
	s.expect("__AUTH__:token")
	s.say("ACK")
	s.expect("__BATCH__:1:a", "__BATCH__:2:b")
}

// Connections that make no progress are tried ever more slowly, up to the cap; progress resets that.
func TestClientBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		o := p.options()
		o.Backoff = Backoff{Min: 100 * time.Millisecond, Max: time.Second}
		c := startClient(t, o)
		require.NoError(t, send(c, []byte("a"), []byte("b")))
		before := time.Now()
		for _, want := range []int{0, 100, 200, 400, 800, 1000, 1000} {
			s := p.next() // being let in is no progress
			require.Equal(t, time.Duration(want)*time.Millisecond, time.Since(before))
			before = time.Now()
			s.conn.Close()
		}
		s := p.next()
		s.expect("__BATCH__:1:a", "__BATCH__:2:b")
		s.say("RECEIVED", "RECEIVED")
		s.expect("__COMMIT__:1")
		s.say("ACK:1")
		s.expect("__COMMIT__:2")
		before = time.Now()
		s.conn.Close()
		s = p.next()
		require.Equal(t, 100*time.Millisecond, time.Since(before))
		go s.serve()
		require.NoError(t, c.Flush(t.Context()))
	})
}

func TestClientHonoursQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		c := startClient(t, p.options())
		require.NoError(t, send(c, []byte("a"), []byte("b")))
		s := p.next()
		s.expect("__BATCH__:1:a", "__BATCH__:2:b")
		before := time.Now()
		s.say("QUEUE_FULL:1234", "RETRY")
		s.expect("__BATCH__:1:a")
		require.Equal(t, 1234*time.Millisecond, time.Since(before))
		s.say("RECEIVED")
		go s.serve()
		require.NoError(t, c.Flush(t.Context()))
	})
}

// A connection that says nothing for Timeout, while a reply is due, is given up; an idle one is not.
func TestClientTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		c := startClient(t, p.options())
		require.NoError(t, send(c, []byte("a")))
		s := p.next()
		go s.serve()
		require.NoError(t, c.Flush(t.Context()))
		<-time.After(time.Hour)
		require.True(t, c.Status().Connected)
		s.conn.Close()
		require.NoError(t, send(c, []byte("b")))
		s = p.next()
		s.expect("__BATCH__:2:b")
		before := time.Now()
		require.Empty(t, s.line())
		require.Equal(t, 30*time.Second, time.Since(before))
		s = p.next()
		go s.serve()
		require.NoError(t, c.Flush(t.Context()))
	})
}

// REJECTED is tried again for a while: our own last connection may linger. Then it is fatal.
func TestClientRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		c := startClient(t, p.options())
		require.NoError(t, send(c, []byte("a")))
		begin := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- c.Flush(t.Context()) }()
		for {
			select {
			case s := <-p.conns:
				s.expect("__AUTH__:token")
				s.say("REJECTED")
				s.conn.Close()
				continue
			case err := <-ended:
				require.ErrorIs(t, err, ErrRejected)
			}
			break
		}
		require.InDelta(t, 2*time.Minute, time.Since(begin), float64(6*time.Second))
	})
}

func TestClientFatal(t *testing.T) {
	for reply, want := range map[string]string{"AUTH_FAILED": "does not know this token", "BAD_REQUEST": "does not understand"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t)
			c := startClient(t, p.options())
			require.NoError(t, send(c, []byte("a")))
			s := <-p.conns
			s.expect("__AUTH__:token")
			s.say(reply)
			require.ErrorContains(t, c.Flush(t.Context()), want)
			require.ErrorContains(t, send(c, []byte("b")), want)
			<-c.Done()
			synctest.Wait()
			require.Empty(t, p.conns, "it is not tried again")
		})
	}
}

// A reply that can't be read, or comes unasked, ends the connection and forgets nothing.
func TestClientGarbage(t *testing.T) {
	for _, reply := range []string{"HELLO", "ACK:x", "ACK:99999999999999999999", "PENDING", "RECEIVED\nRECEIVED\nRECEIVED", "\x00"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t)
			c := startClient(t, p.options())
			require.NoError(t, send(c, []byte("a"), []byte("b")))
			s := p.next()
			s.expect("__BATCH__:1:a", "__BATCH__:2:b")
			s.conn.Write([]byte(reply + "\n"))
			s.conn.Close()
			go p.next().serve()
			require.NoError(t, c.Flush(t.Context()))
			require.Equal(t, uint64(2), c.Status().Resent)
		})
	}
}

// B33 again, through a connection: the client ends, and holds all it held.
func TestB33ClientChecksTheWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		o := p.options()
		o.Window = 1
		c := startClient(t, o)
		require.NoError(t, send(c, []byte("a")))
		s := p.next()
		s.expect("__BATCH__:1:a")
		s.say("RECEIVED")
		s.expect("__COMMIT__:1")
		s.say("ACK:2")
		var overdrawn *Overdrawn
		require.ErrorAs(t, c.Flush(t.Context()), &overdrawn)
		require.Zero(t, c.Status().Acknowledged)
	})
}

func TestClientRefusesBadRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		c := startClient(t, p.options())
		for problem, record := range map[string][]byte{"LF at byte 1": []byte("a\nb"), "allowed are 4194274": make([]byte, MaxRecord+1)} {
			err := send(c, []byte("good"), record)
			var bad *BadRecord
			require.ErrorAs(t, err, &bad)
			require.Equal(t, 1, bad.Index)
			require.ErrorContains(t, err, problem)
		}
		synctest.Wait()
		require.Empty(t, p.conns, "nothing of such a call is sent")
		require.NoError(t, send(c, make([]byte, MaxRecord)))
		go p.next().serve()
		require.NoError(t, c.Flush(t.Context()))
	})
}

func TestClientWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		o := p.options()
		o.Window = 2
		c := startClient(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan error, 1)
		go func() { _, err := c.Send(ctx, []byte("a"), []byte("b"), []byte("c")); sent <- err }()
		synctest.Wait()
		require.Equal(t, uint64(2), c.Status().Records)
		cancel()
		require.ErrorIs(t, <-sent, context.Canceled)
		go p.next().serve()
		require.NoError(t, c.Flush(t.Context()))
		require.NoError(t, send(c, []byte("c")), "a call that was given up leaves no gap")
		require.NoError(t, c.Flush(t.Context()))
	})
}

// What a killed process left in its journal the next one sends first, under the same numbers.
func TestClientGoesOn(t *testing.T) {
	dir := t.TempDir()
	p := newPeer(t)
	o := p.options()
	o.Journal = openJournal(t, dir)
	c := startClient(t, o)
	_, err := c.SendFrom(t.Context(), []byte("here"), []byte("a"), []byte("b"), []byte("c"))
	require.NoError(t, err)
	s := p.next()
	s.expect("__BATCH__:1:a", "__BATCH__:2:b", "__BATCH__:3:c")
	s.say("RECEIVED", "RECEIVED", "RECEIVED")
	s.expect("__COMMIT__:1")
	s.say("ACK:1")
	s.expect("__COMMIT__:2")
	require.NoError(t, c.Close())

	p = newPeer(t)
	o = p.options()
	o.Journal = openJournal(t, dir)
	require.Equal(t, "here", string(o.Journal.Source()))
	c = startClient(t, o)
	require.NoError(t, send(c, []byte("d")))
	s = p.next()
	s.expect("__BATCH__:2:b", "__BATCH__:3:c", "__BATCH__:4:d")
	s.say("RECEIVED", "RECEIVED", "RECEIVED")
	s.expect("__COMMIT__:2")
	s.say("ACK:4")
	require.NoError(t, c.Flush(t.Context()))
}

// A journal that can't be written to ends the client, and what it could not store was never sent.
func TestClientWithoutDisk(t *testing.T) {
	p := newPeer(t)
	o := p.options()
	o.Journal = openJournal(t, t.TempDir())
	c := startClient(t, o)
	require.NoError(t, o.Journal.f.Close())
	require.ErrorIs(t, send(c, []byte("a")), os.ErrClosed)
	require.ErrorIs(t, c.Flush(t.Context()), os.ErrClosed)
	require.Empty(t, p.conns)
}

func TestOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"token":   func(o *Options) { o.Token = "" },
		"lf":      func(o *Options) { o.Token = "a\nb" },
		"window":  func(o *Options) { o.Window = 4097 },
		"window2": func(o *Options) { o.Window = -1 },
		"backoff": func(o *Options) { o.Backoff = Backoff{Min: 2, Max: 1} },
		"dialect": func(o *Options) { o.Dialect = 3 },
		"batch":   func(o *Options) { o.BatchRecords = -1 },
		"name":    func(o *Options) { o.Collector = "a b" },
		"no name": func(o *Options) { o.Collector = "" },
		"dots":    func(o *Options) { o.Collector = ".." },
		"utf-8":   func(o *Options) { o.Token = "\xff" },
	} {
		o := Options{Address: "127.0.0.1:1", Collector: "a", Token: "token"}
		change(&o)
		_, err := Dial(t.Context(), o)
		require.Error(t, err, name)
	}
}

// A dial that fails is tried again.
func TestClientDialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		o := p.options()
		failures := 3
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			if failures--; failures >= 0 {
				return nil, errors.New("refused")
			}
			return p.dial(ctx)
		}
		c := startClient(t, o)
		require.NoError(t, send(c, []byte("a")))
		go p.next().serve()
		require.NoError(t, c.Flush(t.Context()))
		require.Zero(t, c.Status().Reconnects)
	})
}
