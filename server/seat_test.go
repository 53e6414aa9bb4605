package server

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Who has the seat of a stream, and for how long.

func TestB19QuietButAliveKeepsItsSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), func(o *Options) { o.IdleTimeout = time.Minute })
		c := ts.login()
		for id := 1; id <= 10; id++ {
			<-time.After(time.Minute - time.Nanosecond)
			c.batches(id, id)
		}
		<-time.After(time.Minute)
		c.closed()
		require.Equal(t, 1.0, ts.metric("tidemark_connections_refused_total", `reason="idle-timeout"`))
		require.False(t, ts.status("a").Connected)
	})
}

// resources are what a process can run out of; descriptors are counted where the system lists them.
func resources() (goroutines, descriptors int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	return runtime.NumGoroutine(), len(entries)
}

func backTo(t *testing.T, goroutines, descriptors int) {
	t.Helper()
	until(t, "goroutines and descriptors are back", func() bool {
		g, d := resources()
		return g <= goroutines && d <= descriptors
	})
}

func TestB19ConnectAuthVanish(t *testing.T) {
	ts := start(t, newWorld(), nil)
	ts.login().conn.Close()
	until(t, "the seat is free", func() bool { return !ts.status("a").Connected })
	goroutines, descriptors := resources()
	for i := range 1000 {
		conn, err := ts.connect()
		require.NoError(t, err)
		_, err = io.WriteString(conn, "__AUTH__:tok-A\n")
		require.NoError(t, err)
		if i%2 == 0 { // half of them with RST
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
	backTo(t, goroutines, descriptors)
}

func TestB19ManyRejected(t *testing.T) {
	ts := start(t, newWorld(), func(o *Options) { o.SeatWait = time.Nanosecond })
	c := ts.login()
	goroutines, descriptors := resources()
	rejected := 0
	for range 1000 {
		conn, err := ts.connect()
		require.NoError(t, err)
		_, err = io.WriteString(conn, "__AUTH__:tok-A\n")
		require.NoError(t, err)
		reply, err := io.ReadAll(conn)
		require.NoError(t, err)
		if string(reply) == "REJECTED\n" {
			rejected++
		}
		conn.Close()
	}
	require.Equal(t, 1000, rejected)
	backTo(t, goroutines, descriptors)
	c.batches(1, 1)
}

// The late end of an old connection takes nothing from the new one.
func TestB20LateCleanUp(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	random := seeded(t)
	id := 1
	old := ts.login()
	for range 100 {
		// The old one goes in one of several ways while the new one asks for the seat, and what it
		// writes last arrives before the seat changes hands, or not at all.
		fresh := ts.dial()
		fresh.send("__AUTH__:tok-A")
		switch random.IntN(3) {
		case 0:
			old.conn.Close()
		case 1:
			old.conn.(*net.TCPConn).SetLinger(0)
			old.conn.Close()
		case 2:
			old.write("__BATCH__:")
			old.conn.(*net.TCPConn).CloseWrite()
		}
		require.Equal(t, "ACK", fresh.reply())
		_, err := old.conn.Write([]byte(fmt.Sprintf("__BATCH__:%d:late\n__COMMIT__:%d\n", id, id)))
		_ = err // it may be refused at once, or only later
		fresh.batches(id, id)
		fresh.expect("__BATCH__:999999:x", "QUEUE_FULL:500") // the session is the new one's own
		fresh.expect(fmt.Sprintf("__BATCH__:%d:%d", id, id), "RECEIVED")
		require.True(t, ts.status("a").Connected)
		until(t, "the old one is forgotten", func() bool { return len(ts.live()) == 1 })
		id++
		old = fresh
	}
	old.eventually(id-1, fmt.Sprint("ACK:", id-1))
	require.Equal(t, records("a", 1, id-1), w.durable())
}

// Two that fight for one seat: one has it at any time, the other is told and counted.
func TestB20OneSeatAtATime(t *testing.T) {
	w := newWorld()
	ts := start(t, w, func(o *Options) { o.SeatWait = time.Millisecond })
	var mu sync.Mutex
	seated, acks, rejected := 0, 0, 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				conn, err := ts.connect()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(conn, "__AUTH__:tok-A\n")
				buf := make([]byte, 64)
				n, _ := io.ReadAtLeast(conn, buf, 4)
				mu.Lock()
				switch reply := string(buf[:n]); {
				case strings.HasPrefix(reply, "ACK"):
					if seated++; seated > 1 {
						t.Error("two have the seat")
					}
					acks++
				case strings.HasPrefix(reply, "REJ"):
					rejected++
				default:
					t.Errorf("%q", reply)
				}
				mu.Unlock()
				if buf[0] == 'A' {
					runtime.Gosched() // others try meanwhile
					mu.Lock()
					seated--
					mu.Unlock()
				}
				conn.Close()
			}
		})
	}
	all.Wait()
	require.Equal(t, 200, acks+rejected)
	require.EqualValues(t, rejected, ts.metric("tidemark_replies_total", `code="REJECTED"`))
	until(t, "the seat is free", func() bool { return len(ts.live()) == 0 })
	require.False(t, ts.status("a").Connected)
}

// A peer that is not authenticated is gone when the time is over, whatever it does meanwhile.
func TestB22StallsBeforeAuth(t *testing.T) {
	const limit = 5 * time.Second
	for name, stall := range map[string]func(net.Conn){
		"says nothing": func(net.Conn) {},
		"byte by byte": func(conn net.Conn) {
			for _, b := range []byte("__AUTH__:tok-A\n") {
				<-time.After(limit * 9 / 10)
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
			}
		},
		"half a line": func(conn net.Conn) { conn.Write([]byte("__AUTH__:tok-")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := startPipe(t, newWorld(), func(o *Options) { o.AuthTimeout = limit })
				begin := time.Now()
				var all sync.WaitGroup
				for range 200 {
					conn, err := ts.connect()
					require.NoError(t, err)
					all.Go(func() { stall(conn) })
					all.Go(func() {
						n, err := conn.Read(make([]byte, 100))
						if n != 0 || err != io.EOF || time.Since(begin) > limit {
							t.Errorf("%d bytes, %v, after %v", n, err, time.Since(begin))
						}
						conn.Close()
					})
				}
				for range 4 { // the right client is served meanwhile, and keeps its place afterwards
					<-time.After(time.Second)
					asked := time.Now()
					c := ts.login()
					require.Zero(t, time.Since(asked))
					c.conn.Close()
					require.NotEmpty(t, ts.scrape())
				}
				c := ts.login()
				all.Wait()
				require.Equal(t, 200.0, ts.metric("tidemark_connections_refused_total", `reason="auth-timeout"`))
				<-time.After(limit)
				c.batches(1, 1)
			})
		})
	}
}

// What is no AUTH ends the connection at once: blank lines and wrong tokens buy no time.
func TestB22WrongFirstLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), nil)
		begin := time.Now()
		for range 200 {
			for _, line := range []string{"", "\r", "__AUTH__:wrong", "GET / HTTP/1.1"} {
				c := ts.dial()
				c.expect(line, "AUTH_FAILED")
				c.closed()
			}
		}
		require.Zero(t, time.Since(begin))
	})
}

// After AUTH_FAILED the peer may go on sending: it is read away for a while, never longer than the
// time to authenticate.
func TestRefusedPeerThatSendsOn(t *testing.T) {
	ts := start(t, newWorld(), func(o *Options) { o.AuthTimeout = 200 * time.Millisecond })
	c := ts.dial()
	c.send("__AUTH__:wrong")
	require.Equal(t, "AUTH_FAILED", c.reply())
	until(t, "the connection is over", func() bool {
		_, err := c.conn.Write(make([]byte, 1<<16))
		return err != nil
	})
	until(t, "it is forgotten", func() bool { return len(ts.live()) == 0 })
}

// A peer that does not read its replies loses its connection, and others are not concerned.
func TestPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := new(logged)
		ts := startPipe(t, newWorld(), func(o *Options) {
			o.WriteTimeout, o.SeatWait, o.Log = 10*time.Second, time.Minute, logs.logger()
		})
		c := ts.login()
		begin := time.Now()
		c.send("__BATCH__:1:1") // the reply is never read
		ts.login()
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.Equal(t, 1.0, ts.metric("tidemark_connections_refused_total", `reason="write-timeout"`))
		require.Equal(t, 1, strings.Count(logs.String(), `msg="connection closed" reason=write-timeout collector=a`))
	})
}
