package server

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

// What connections of dialect 2 leave behind, and what they cost.

// Wrong tokens and unreadable messages leave neither secrets in the log nor series behind.
func TestB45SecretsAndSeries2(t *testing.T) {
	const secret = "SECRET-X"
	logs := new(logged)
	ts := start(t, newWorld(), func(o *Options) {
		o.Log = logs.logger()
		o.Auth = Tokens(map[string]string{"tok-A": "a", "SECRET-X-right": "b"})
	})
	bad := func(i int) {
		for _, text := range []string{
			fmt.Sprintf(`HELLO {"version":2,"collector":"c%d","instance":"i%d","token":"SECRET-X%d","first":0,"next":0}`, i, i, i),
			fmt.Sprintf(`HELLO {"version":2,"collector":"a","instance":"i%d","token":"SECRET-X-right","first":0,"next":0}`, i),
			fmt.Sprintf(`HELLO {"version":%d,"token":"SECRET-X"}`, i+3),
			`HELLO {"token":"SECRET-X`,
			`HELLO SECRET-X`,
			`HELLO {"version":2,"collector":"a","instance":"` + "\x1b[31m" + `","token":"SECRET-X","first":0,"next":0}`,
			`HELLO {"version":2,"token":"` + strings.Repeat("SECRET-X", protocol.MaxJSON/8) + `"}`,
		} {
			c := ts.dial2()
			c.conn.Write([]byte(text + "\r\n")) // the last is cut off by the end of the connection
			require.Equal(t, protocol.CodeError, c.next().Code, "%.80q", text)
			c.conn.Close()
		}
	}
	bad(0)
	c, _ := ts.seat("i", 0, 0)
	c.say("SECRET-X 1")
	c.over("BAD_REQUEST")
	series := strings.Count(ts.scrape(), "\n")
	for i := range 100 {
		bad(i)
	}
	require.Equal(t, series, strings.Count(ts.scrape(), "\n"))
	require.NotContains(t, logs.String(), secret)
	require.NotContains(t, ts.scrape(), secret)
	require.NotContains(t, logs.String(), "\x1b")
	require.Contains(t, logs.String(), "connection closed")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, ts.Shutdown(ctx))
}

// A batch costs its payload, and nothing else that grows with it.
func TestBatch2Allocations(t *testing.T) {
	w := newWorld()
	w.write = block().write
	ts := start(t, w, limits2)
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	c := newConnection(ts.Server, there)
	c.number = ts.numbers.Add(1)
	require.NoError(t, c.hello(t.Context(), hello2("i", 0, 0)))
	require.NoError(t, c.takeSeat())
	defer c.giveUpSeat()
	var payload []byte
	for range 100 {
		payload = protocol.AppendRecord(payload, make([]byte, 256))
	}
	const batches = 2000
	text := protocol.AppendBatch2(nil, batches, 100, payload)
	c.parser2.MaxBatch = protocol.DefaultMaxBatch
	id := uint64(0)
	allocations := testing.AllocsPerRun(batches, func() {
		id++
		req, _, err := c.parser2.Next(text)
		if err != nil {
			t.Fatal(err)
		}
		req.ID = id
		if err := c.batch2(req); err != nil {
			t.Fatal(err)
		}
	})
	require.EqualValues(t, batches+1, ts.status("a").Received)
	require.LessOrEqual(t, allocations, 1.0)
}

// limits2 has room for a test that delivers nothing.
func limits2(o *Options) {
	limits(func(l *statemachine.Limits) {
		l.QueueCapacity, l.QueueBytes, l.Ahead, l.History = 1<<20, 0, 1<<20, 1<<20
	})(o)
}

// A connection that says nothing costs one goroutine and a small buffer, also when much has passed through it.
func TestIdleConnectionIsSmall(t *testing.T) {
	const many = 500
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), func(o *Options) {
			o.IdleTimeout, o.TotalBytes = time.Minute, 1<<40
			o.Auth = func(token []byte) (string, bool) { return string(token), true }
		})
		before := runtime.NumGoroutine()
		var clients []*client2
		for i := range many {
			c, _ := ts.seatOf(fmt.Sprint("c", i))
			if i == 0 {
				for id := uint64(1); id <= 20; id += 2 {
					c.write(batch2(id, string(make([]byte, 100_000))))
					c.batches(id+1, id+1)
				}
			}
			clients = append(clients, c)
		}
		for i, c := range clients {
			if i == 0 {
				c.acked(20)
			}
			c.expect("PING")
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine()-before, many)
		for _, conn := range ts.live() {
			require.LessOrEqual(t, cap(conn.input.buf), firstRead)
			require.Zero(t, cap(conn.arena.chunk))
			require.Less(t, cap(conn.out.buf)+cap(conn.out.spare), firstRead)
		}
		for _, c := range clients {
			c.conn.Close()
		}
	})
}
