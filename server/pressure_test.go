package server

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// What happens when more comes than the sink, the store or the memory can take.

func TestB17RefusedInsideRefusedOutside(t *testing.T) {
	const capacity, connections, perConnection = 3, 50, 10
	w := newWorld()
	write := block()
	w.write = write.write
	ts := start(t, w, limits(func(l *statemachine.Limits) { l.QueueCapacity = capacity }))
	received := map[int]bool{}
	for range connections {
		c := ts.login()
		for id := 1; id <= perConnection; id++ {
			c.send(fmt.Sprintf("__BATCH__:%d:%d", id, id))
		}
		for id := 1; id <= perConnection; id++ {
			switch reply := c.reply(); {
			case reply == "RECEIVED":
				received[id] = true
			case reply == "RETRY":
				require.Greater(t, id, capacity+1)
			default:
				require.Equal(t, "QUEUE_FULL:500", reply)
				require.Equal(t, capacity+1, id)
			}
		}
		for id := capacity + 1; id <= perConnection; id++ {
			c.expect(fmt.Sprintf("__COMMIT__:%d", id), "RETRY")
		}
		require.LessOrEqual(t, ts.status("a").Held, capacity)
		c.send("__BATCH__:4:4", "__COMMIT__:4", "__BATCH__:5:5") // nobody waits for these replies
		c.conn.Close()
	}
	require.Len(t, received, capacity)
	until(t, "the last connection is over", func() bool { return len(ts.live()) == 0 })
	write.open()
	until(t, "all is delivered", func() bool { return len(w.durable()) == capacity })
	c := ts.login()
	c.batches(1, capacity)
	c.eventually(capacity, fmt.Sprint("ACK:", capacity))
	require.Equal(t, records("a", 1, capacity), w.durable())
}

// While the sink is blocked, backing off, idle or busy, the other requests are answered.
func TestB18AnsweredHoweverSlowTheSinkIs(t *testing.T) {
	for _, procs := range []int{1, 2} {
		for name, slow := range map[string]func(*world, *blocked){
			"write blocked":  func(w *world, b *blocked) { w.write = b.write },
			"commit blocked": func(w *world, b *blocked) { w.commit = b.wait },
			"save blocked":   func(w *world, b *blocked) { w.save = b.wait },
			"backoff":        func(w *world, b *blocked) { signal(b.entered); w.write = never },
			"idle":           func(w *world, b *blocked) { signal(b.entered) },
		} {
			t.Run(fmt.Sprintf("%s, %d", name, procs), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				w := newWorld()
				b := block()
				slow(w, b)
				ts := start(t, w, func(o *Options) { o.Backoff = Backoff{time.Minute, time.Hour} })
				c := ts.login()
				if name != "idle" {
					c.batches(1, 1)
				}
				<-b.entered
				c.expect("__BATCH__:1:1", "RECEIVED")
				c.expect("__BATCH__:2:2", "RECEIVED")
				c.send("__COMMIT__:2")
				require.Contains(t, []string{"PENDING", "ACK:2"}, c.reply())
				require.Equal(t, 2.0, ts.metric("tidemark_stream_received", `collector="a"`))
				ts.loginAs("tok-B").batches(1, 1)
				if name != "backoff" {
					b.open()
					c.eventually(2, "ACK:2")
				}
			})
		}
	}
}

func TestB18UnderLoad(t *testing.T) {
	const n = 10_000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w := newWorld()
	ts := start(t, w, limits(func(l *statemachine.Limits) { l.QueueCapacity, l.Ahead, l.History = n, n, n }))
	a, b := ts.login(), ts.loginAs("tok-B")
	go func() {
		for id := 1; id <= n; id++ {
			fmt.Fprintf(a.conn, "__BATCH__:%d:%d\n", id, id)
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			if reply, err := a.in.ReadString('\n'); err != nil || reply != "RECEIVED\n" {
				t.Errorf("%q %v", reply, err)
				return
			}
		}
	}()
	for id := 1; id <= 20; id++ { // each of these is done while the other floods
		b.batches(id, id)
		b.eventually(id, fmt.Sprint("ACK:", id))
		require.NotEmpty(t, ts.scrape())
	}
	<-done
	a.eventually(n, fmt.Sprint("ACK:", n))
	ts.released()
}

func TestMemoryIsBoundedInTotal(t *testing.T) {
	const record = 1000
	w := newWorld()
	w.write = never
	ts := start(t, w, func(o *Options) { o.TotalBytes = 10*record + 500 })
	a, b := ts.login(), ts.loginAs("tok-B")
	line := func(id int) string {
		head := fmt.Sprintf("__BATCH__:%d:", id)
		return head + strings.Repeat("x", record-2) // and 2 bytes for its length
	}
	for id := 1; id <= 5; id++ {
		a.expect(line(id), "RECEIVED")
		b.expect(line(id), "RECEIVED")
	}
	require.EqualValues(t, 10*record, ts.memory.Load())
	require.EqualValues(t, 10*record, ts.metric("tidemark_held_bytes", ""))
	a.expect(line(6), "QUEUE_FULL:500")
	b.expect(line(6), "QUEUE_FULL:500")
	a.expect("__COMMIT__:6", "RETRY")
	b.expect(line(5), "RECEIVED") // one that is here needs no room
	require.EqualValues(t, 10*record, ts.memory.Load())
	w.set(func() { w.write = nil })
	for _, c := range []*client{a, b} {
		c.insist(line(5))
		c.insist(line(6))
		c.eventually(6, "ACK:6")
	}
	ts.released()
	require.Zero(t, ts.metric("tidemark_held_bytes", ""))
	require.Zero(t, ts.metric("tidemark_stream_held_bytes", ""))
}

// The account of memory ends at zero whatever happened in between.
func TestB36MemoryDoesNotDrift(t *testing.T) {
	random := seeded(t)
	w := newWorld()
	w.write = func(_ context.Context, d sink.Delivery) (int, error) {
		n := len(d.Batches)
		switch random.IntN(4) {
		case 0:
			return random.IntN(n), passing
		case 1:
			return 0, passing
		}
		return n, nil
	}
	ts := start(t, w, func(o *Options) {
		limits(func(l *statemachine.Limits) { l.QueueCapacity = 20 })(o)
		o.TotalBytes, o.MaxLineBytes = 300, 60
	})
	const n = 300
	last := 1 // RECEIVED
	first := ts.login()
	first.insist("__BATCH__:1:1")
	first.conn.Close()
	for last < n {
		c := ts.login()
		for range 1 + random.IntN(20) {
			c.send(fmt.Sprintf("__BATCH__:%d:%d", last+1, last+1), fmt.Sprintf("__BATCH__:%d:other", last),
				fmt.Sprintf("__BATCH__:%d:%s", last+2, strings.Repeat("x", 60)))
			before, replies := last, c.replies(3)
			if replies[0] == "RECEIVED" {
				last++
			}
			require.Equal(t, "TOO_LARGE", replies[2])
			if random.IntN(4) == 0 {
				break
			}
			c.insist(fmt.Sprintf("__BATCH__:%d:%d", before, before)) // it was CONFLICT, or there was no room to look
		}
		c.conn.Close()
	}
	c := ts.login()
	c.insist(fmt.Sprintf("__BATCH__:%d:%d", last, last))
	c.eventually(last, fmt.Sprint("ACK:", last))
	ts.released()
	require.Equal(t, records("a", 1, last), w.durable())
}

func TestMemoryOfRestoredPayloads(t *testing.T) {
	w := newWorld()
	w.write = never
	keep := limits(func(l *statemachine.Limits) { l.KeepPayloads = true })
	ts := start(t, w, keep)
	ts.login().batches(1, 9)
	until(t, "all are stored", func() bool { return len(w.image("a").Queue) == 9 })
	held := ts.memory.Load()
	require.Positive(t, held)
	ts.kill()
	ts = start(t, w, keep)
	require.Equal(t, held, ts.memory.Load())
	w.set(func() { w.write = nil })
	until(t, "all are delivered", func() bool { return ts.status("a").Committed == 9 })
	ts.released()
	require.Equal(t, records("a", 1, 9), w.durable())
}

func TestMaxConnections(t *testing.T) {
	logs := new(logged)
	ts := start(t, newWorld(), func(o *Options) { o.MaxConnections, o.Log = 2, logs.logger() })
	a, b := ts.login(), ts.dial() // one that says nothing takes a place too
	ts.dial().closed()
	require.Equal(t, 1.0, ts.metric("tidemark_connections_refused_total", `reason="max-connections"`))
	require.Contains(t, logs.String(), "reason=max-connections allowed=2")
	a.batches(1, 1)
	b.conn.Close()
	until(t, "a place is free", func() bool { return ts.metric("tidemark_connections", "") == 1 })
	ts.loginAs("tok-B").batches(1, 1)
}

// A stream with a long queue gives way to one with a single batch.
func TestFairness(t *testing.T) {
	const n = 3 * maxEmit
	w := newWorld()
	first := block()
	var order []string // of deliveries; the sink is one goroutine
	w.write = func(ctx context.Context, d sink.Delivery) (int, error) {
		order = append(order, fmt.Sprintf("%s %d", d.Collector, len(d.Batches)))
		return first.write(ctx, d)
	}
	ts := start(t, w, limits(func(l *statemachine.Limits) { l.QueueCapacity, l.Ahead = 2*n, 2*n; l.History = 2 * n }))
	a, b := ts.login(), ts.loginAs("tok-B")
	a.batches(1, 1)
	<-first.entered
	a.batches(2, n+1)
	b.batches(1, 1)
	first.open()
	b.eventually(1, "ACK:1")
	a.eventually(n+1, fmt.Sprint("ACK:", n+1))
	require.Equal(t, []string{"a 1", "a 512", "b 1", "a 512", "a 512"}, order)
}

// One stream whose batches the sink refuses for now does not hold the others up for ever, and all
// come through: many streams, a sink that fails at random.
func TestManyStreamsThroughAFailingSink(t *testing.T) {
	const streams, n = 20, 60
	random := seeded(t)
	w := newWorld()
	w.write = func(_ context.Context, d sink.Delivery) (int, error) {
		if random.IntN(3) == 0 {
			return random.IntN(len(d.Batches)), passing
		}
		return len(d.Batches), nil
	}
	tokens := map[string]string{}
	for i := range streams {
		tokens[fmt.Sprint("tok-", i)] = fmt.Sprint("s", i)
	}
	ts := start(t, w, func(o *Options) {
		o.Auth, o.Backoff = Tokens(tokens), Backoff{time.Microsecond, 10 * time.Microsecond}
	})
	var all sync.WaitGroup
	for i := range streams {
		c := ts.loginAs(fmt.Sprint("tok-", i))
		all.Go(func() {
			for id := 1; id <= n; id++ {
				fmt.Fprintf(c.conn, "__BATCH__:%d:%d\n", id, id)
			}
			for range n {
				if reply, err := c.in.ReadString('\n'); err != nil || reply != "RECEIVED\n" {
					t.Errorf("%q %v", reply, err)
				}
			}
		})
	}
	all.Wait()
	until(t, "everything is committed", func() bool {
		for _, st := range ts.Streams() {
			if st.Committed != n || st.Held != 0 || st.Waiting != "" {
				return false
			}
		}
		return true
	})
	of := map[string][]string{}
	for _, r := range w.durable() {
		name, _, _ := strings.Cut(r, "/")
		of[name] = append(of[name], r)
	}
	for i := range streams {
		name := fmt.Sprint("s", i)
		require.Equal(t, records(name, 1, n), of[name])
	}
	ts.released()
}

// With nothing to do the pipeline sleeps, also when a stream is halted, owes numbers or waits.
func TestIdlePipelineSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gaps = true
		w.write = refuse("poison")
		ts := startPipe(t, w, func(o *Options) { o.IdleTimeout = 48 * time.Hour })
		a, b := ts.login(), ts.loginAs("tok-B")
		a.batches(1, 3)
		a.expect("__BATCH__:4:poison", "RECEIVED")
		b.expect("__BATCH__:5:x", "RECEIVED")
		<-time.After(time.Hour)
		require.True(t, ts.status("a").Halted)
		require.EqualValues(t, 3, ts.status("a").Committed)
		before := w.called()
		<-time.After(24 * time.Hour)
		require.Equal(t, before, w.called())
		a.expect("__COMMIT__:3", "ACK:3")
		b.expect("__COMMIT__:4", "RESEND")
		b.expect("__BATCH__:5:x", "RECEIVED") // a duplicate is nothing to do either
		<-time.After(time.Hour)
		require.Equal(t, before, w.called())
	})
}

// A restart with nothing new stores nothing.
func TestRestartIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gaps = true
		ts := startPipe(t, w, nil)
		c := ts.login()
		c.batches(1, 3)
		c.expect("__BATCH__:9:9", "RECEIVED")
		<-time.After(time.Second)
		ts.kill()
		before := w.called()
		ts = startPipe(t, w, nil)
		<-time.After(time.Hour)
		require.Equal(t, before, w.called())
		require.Equal(t, [][2]uint64{{4, 8}}, ts.status("a").Missing)
	})
}

// A wanted batch that is answered RETRY takes no room for long, also when there is none left.
func TestMemoryOfRetry(t *testing.T) {
	w := newWorld()
	w.write = never
	const record = 1 + 1 // with its length
	ts := start(t, w, func(o *Options) { o.TotalBytes, o.MaxLineBytes = 2*record, 60 })
	c, b := ts.login(), ts.loginAs("tok-B")
	c.batches(1, 1)
	c.expect("__BATCH__:2:"+strings.Repeat("x", 60), "TOO_LARGE")
	for range 3 {
		c.expect("__BATCH__:3:3", "RETRY")
		require.EqualValues(t, record, ts.memory.Load())
	}
	b.batches(1, 1)
	for range 3 {
		c.expect("__BATCH__:1:1", "RECEIVED") // one that is here needs no room
		c.expect("__BATCH__:3:3", "QUEUE_FULL:500")
		b.expect("__BATCH__:2:2", "QUEUE_FULL:500")
		require.EqualValues(t, 2*record, ts.memory.Load())
	}
	w.set(func() { w.write = nil })
	for id := 2; id <= 3; id++ {
		c.insist(fmt.Sprintf("__BATCH__:%d:%d", id, id))
	}
	c.eventually(3, "ACK:3")
	b.eventually(1, "ACK:1")
	ts.released()
}
