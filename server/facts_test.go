package server

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// The faults P1 to P15 of the published design, against the real server.

func TestP01NothingAcknowledgedBeforeACheckpoint(t *testing.T) {
	w := newWorld()
	commit := block()
	w.commit = commit.wait
	c := start(t, w, nil).login()
	c.batches(1, 2)
	<-commit.entered // both may be with the sink by now, and nothing is durable
	for _, line := range []string{"__COMMIT__:1", "__COMMIT__:2", "__COMMIT__:1"} {
		c.expect(line, "PENDING")
	}
	commit.open()
	c.eventually(2, "ACK:2")
}

func TestP02FirstBatchIsNotTheBeginning(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	c := ts.login()
	c.expect("__BATCH__:10:x", "RECEIVED")
	c.expect("__COMMIT__:5", "RESEND")
	until(t, "batch 10 is delivered and stored", func() bool { return len(w.durable()) == 1 })
	c.expect("__COMMIT__:10", "PENDING")
	c.expect("__COMMIT__:9", "RESEND")
	require.Equal(t, [][2]uint64{{1, 9}}, ts.status("a").Missing)
}

func TestP03CounterLost(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 3)
	c.eventually(3, "ACK:3")
	c.conn.Close()

	c = ts.login()
	c.expect("__COMMIT__:1", "RESEND") // nothing shows yet that this is the same collector's data
	c.expect("__BATCH__:1:new", "CONFLICT")
	c.expect("__COMMIT__:1", "RETRY")
	c.expect("__BATCH__:1:1", "RECEIVED")
	c.expect("__COMMIT__:1", "ACK:1") // no more than this connection has shown
	require.Equal(t, records("a", 1, 3), w.durable())
}

func TestP04ResendIsReached(t *testing.T) {
	w := newWorld()
	w.write = never
	ts := start(t, w, nil)
	ts.login().batches(1, 2)
	until(t, "the store knows of both", func() bool { return w.image("a").Received == 2 })
	ts.kill()

	w.write = nil
	c := start(t, w, nil).login()
	c.expect("__COMMIT__:1", "RESEND")
	c.expect("__COMMIT__:2", "RESEND")
	c.expect("__COMMIT__:3", "RETRY")
	c.batches(1, 2)
	c.eventually(2, "ACK:2")
	require.Equal(t, records("a", 1, 2), w.durable())
}

func TestP05SentAgainIsDeliveredOnce(t *testing.T) {
	w := newWorld()
	write := block()
	w.write = write.write
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 3)
	c.batches(1, 3) // queued or in flight
	c.conn.Close()
	c = ts.login()
	c.batches(1, 3)
	require.LessOrEqual(t, ts.status("a").Held, 3)
	write.open()
	c.eventually(3, "ACK:3")
	c.batches(1, 3) // committed
	require.Equal(t, records("a", 1, 3), w.durable())
}

func TestP06SecondLineUnderOneNumber(t *testing.T) {
	w := newWorld()
	c := start(t, w, nil).login()
	c.expect("__BATCH__:1:first", "RECEIVED")
	c.expect("__BATCH__:1:second", "CONFLICT")
	c.expect("__COMMIT__:1", "RETRY")
	c.expect("__BATCH__:1:first", "RECEIVED")
	c.eventually(1, "ACK:1")
	require.Equal(t, []string{"a/first"}, w.durable())
}

func TestP07GapIsNamedAndFilled(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	c := ts.login()
	c.expect("__BATCH__:1:1", "RECEIVED")
	c.expect("__BATCH__:3:3", "RECEIVED")
	c.expect("__COMMIT__:2", "RESEND")
	c.eventually(1, "ACK:1")
	c.expect("__COMMIT__:3", "PENDING")
	require.Equal(t, "collector owes 2", ts.status("a").Waiting)
	c.expect("__BATCH__:2:2", "RECEIVED")
	c.eventually(3, "ACK:3")
	require.Equal(t, []string{"a/1", "a/3", "a/2"}, w.durable())
}

func TestP08EmittedWhileItIsCounted(t *testing.T) {
	const n = 3000
	w := newWorld()
	c := start(t, w, limits(func(l *statemachine.Limits) { l.QueueCapacity = n })).login()
	for id := 1; id <= n; id += 100 {
		lines := make([]string, 100)
		for i := range lines {
			lines[i] = fmt.Sprintf("__BATCH__:%d:%d", id+i, id+i)
		}
		c.send(lines...)
		for _, reply := range c.replies(100) {
			require.Equal(t, "RECEIVED", reply)
		}
	}
	c.eventually(n, fmt.Sprintf("ACK:%d", n))
	require.Equal(t, records("a", 1, n), w.durable())
}

func TestP09RestartWithSmallerLimits(t *testing.T) {
	w := newWorld()
	w.write = never
	ts := start(t, w, limits(func(l *statemachine.Limits) { l.QueueCapacity, l.KeepPayloads = 50, true }))
	ts.login().batches(1, 50)
	until(t, "the store has them", func() bool { return len(w.image("a").Queue) == 50 })
	ts.kill()

	ts = start(t, w, limits(func(l *statemachine.Limits) { l.QueueCapacity, l.KeepPayloads = 10, true }))
	c := ts.login()
	require.Equal(t, [][2]uint64{{11, 50}}, ts.status("a").Missing) // by design: what does not fit comes again
	c.expect("__COMMIT__:11", "RESEND")
	c.expect("__COMMIT__:50", "RESEND")
	c.expect("__BATCH__:51:51", "QUEUE_FULL:500")
	w.set(func() { w.write = nil })
	for id := 11; id <= 51; id++ {
		c.insist(fmt.Sprintf("__BATCH__:%d:%d", id, id))
	}
	c.eventually(51, "ACK:51")
	require.Equal(t, records("a", 1, 51), w.durable())
}

// refuse makes a sink that never takes the record, nor what stands behind it in a delivery.
func refuse(record string) func(context.Context, sink.Delivery) (int, error) {
	return func(_ context.Context, d sink.Delivery) (int, error) {
		for i, b := range d.Batches {
			if strings.HasSuffix(string(b.Payload), record) {
				return i, &sink.Refused{Batch: b.ID, Err: errWorld}
			}
		}
		return len(d.Batches), nil
	}
}

func TestP10RefusedRecordHaltsItsStreamOnly(t *testing.T) {
	w := newWorld()
	w.write = refuse("poison")
	ts := start(t, w, nil)
	a, b := ts.login(), ts.loginAs("tok-B")
	a.batches(1, 2)
	a.expect("__BATCH__:3:poison", "RECEIVED")
	a.expect("__BATCH__:4:4", "RECEIVED")
	until(t, "the stream is halted", func() bool { return ts.status("a").Halted })
	a.eventually(2, "ACK:2")
	a.expect("__COMMIT__:3", "PENDING")
	a.expect("__BATCH__:5:5", "QUEUE_FULL:500")
	require.Equal(t, `halted: batch 3, record 0: refused by the sink: the disk is on fire`, ts.status("a").Waiting)

	b.batches(1, 3) // the others go on
	b.eventually(3, "ACK:3")

	w.set(func() { w.write = nil })
	require.NoError(t, ts.Resume("a"))
	a.batches(5, 5)
	a.eventually(5, "ACK:5")
	require.Empty(t, ts.status("a").Waiting)
	require.Equal(t, 8, len(w.durable()))
}

func TestP10RefusedRecordAfterRestart(t *testing.T) {
	w := newWorld()
	w.write = refuse("poison")
	keep := limits(func(l *statemachine.Limits) { l.KeepPayloads = true })
	ts := start(t, w, keep)
	ts.login().expect("__BATCH__:1:poison", "RECEIVED")
	until(t, "the stream is halted and stored", func() bool { return ts.status("a").Halted && len(w.image("a").Queue) == 1 })
	ts.kill()

	ts = start(t, w, keep) // it starts, tries again, and halts again
	until(t, "the stream is halted", func() bool { return ts.status("a").Halted })
	writes := w.called().write
	require.LessOrEqual(t, writes, 2*statemachine.DefaultLimits().MaxNacks)
	c := ts.loginAs("tok-B")
	c.batches(1, 1)
	c.eventually(1, "ACK:1")
	require.Equal(t, writes+1, w.called().write, "a halted stream is not given to the sink")
}

func TestP11CheckpointsThatFailForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.save = func(context.Context) error { return full }
		ts := startPipe(t, w, func(o *Options) {
			limits(func(l *statemachine.Limits) { l.QueueCapacity = 100 })(o)
			o.Backoff = Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
			o.IdleTimeout = 24 * time.Hour
		})
		c := ts.login()
		c.batches(1, 100)
		c.expect("__BATCH__:101:101", "QUEUE_FULL:500")
		<-time.After(time.Hour) // of the bubble
		require.Equal(t, 100, ts.status("a").Held)
		require.Less(t, w.called().save, 1000, "an hour of failures 5s apart")
		require.Greater(t, w.called().save, 700)
		c.expect("__COMMIT__:1", "PENDING")
		require.Equal(t, "checkpoint is retrying: store: transient: no space left", ts.status("a").Waiting)
		ts.pipeline.mu.Lock()
		require.LessOrEqual(t, len(ts.pipeline.dirty)+len(ts.pipeline.waiting), 2)
		ts.pipeline.mu.Unlock()

		w.set(func() { w.save = nil })
		c.eventually(100, "ACK:100")
		ts.released()
	})
}

func TestP12UnsoundImageIsRefused(t *testing.T) {
	w := newWorld()
	w.stored.Images["a"] = &statemachine.Image{Anchored: true, Watermark: 7, Received: 3}
	_, err := New(t.Context(), options(w, nil))
	require.ErrorContains(t, err, `restore the stream of "a"`)
	require.ErrorContains(t, err, "watermark 7, received 3")
}

func TestP13HalfOpenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), func(o *Options) { o.SeatWait, o.IdleTimeout = 1700*time.Millisecond, time.Minute })
		begin := time.Now()
		ts.login() // and nothing more: no FIN, no RST
		for {
			asked := time.Now()
			c := ts.dial()
			c.send("__AUTH__:tok-A")
			reply := c.reply()
			require.LessOrEqual(t, time.Since(asked), 1700*time.Millisecond)
			if reply == "ACK" {
				break
			}
			require.Equal(t, "REJECTED", reply)
			c.closed()
			require.Less(t, time.Since(begin), time.Minute)
		}
		require.Equal(t, time.Minute, time.Since(begin), "the seat is free when the idle limit is over")
	})
}

func TestP14SizesAreBounded(t *testing.T) {
	w := newWorld()
	packets, err := protocol.NewPacketDecoder(nil, 1000)
	require.NoError(t, err)
	pack, err := protocol.NewPacketEncoder(protocol.CompressionGzip, nil, nil)
	require.NoError(t, err)
	c := start(t, w, func(o *Options) { o.MaxLineBytes, o.Packets = 2000, packets }).login()
	packet := func(n int) string {
		b, err := pack.Append(nil, []byte(strings.Repeat("x", n)))
		require.NoError(t, err)
		return string(b)
	}
	c.expect("__BATCH__:1:"+strings.Repeat("x", 2000), "TOO_LARGE")
	c.expect("__COMMIT__:1", "RETRY")
	c.expect("__BATCH__:1:"+packet(1001), "DECODE_FAILED") // refused before RECEIVED, not in the pipeline
	c.expect("__BATCH__:1:"+packet(1000), "RECEIVED")
	c.eventually(1, "ACK:1")
	require.Equal(t, []string{"a/" + strings.Repeat("x", 1000)}, w.durable())
}

// An agent that forgets on RECEIVED and never asks COMMIT, through crashes.
func TestP15ForgettingAgent(t *testing.T) {
	const n, rounds = 400, 20
	random := seeded(t)
	w := newWorld()
	next := 1 // all below is forgotten
	for round := 1; next <= n; round++ {
		require.Less(t, round, 500, "the agent makes no headway")
		ts := start(t, w, func(o *Options) { o.Durable, o.ReceivedWait = true, 5*time.Second })
		c := ts.dial()
		window := 1 + random.IntN(8)
		lines := []string{"__AUTH__:tok-A"}
		for id := next; id < next+window && id <= n; id++ {
			lines = append(lines, fmt.Sprintf("__BATCH__:%d:%d", id, id))
		}
		c.send(lines...)
		killed := make(chan struct{})
		wait := time.Duration(random.IntN(3000)) * time.Microsecond
		if round > rounds {
			wait = 5 * time.Second // a life long enough
		}
		timer := time.AfterFunc(wait, func() { ts.kill(); close(killed) })
		for {
			reply, err := c.in.ReadString('\n')
			if err != nil {
				break
			}
			if reply == "RECEIVED\n" {
				next++
				if next <= n && round > rounds {
					io.WriteString(c.conn, fmt.Sprintf("__BATCH__:%d:%d\n", next+window-1, next+window-1))
				}
			}
			if next > n {
				break
			}
		}
		if timer.Stop() {
			ts.kill()
		} else {
			<-killed
		}
		require.GreaterOrEqual(t, len(w.durable()), next-1, "forgotten batches are not durable")
	}
	require.Equal(t, records("a", 1, n), w.durable()[:n])
}
