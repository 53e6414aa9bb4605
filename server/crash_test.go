package server

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// Crashes, restarts and failures of sink and store, from public reports.

func TestB02AcknowledgedOnlyWhenDurable(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 7)
	c.eventually(7, "ACK:7")
	save := block()
	w.set(func() { w.save = save.wait })
	c.batches(8, 9)
	<-save.entered
	c.expect("__COMMIT__:8", "PENDING")
	ts.kill()
	c.closed()

	save = block()
	w.save = save.wait
	c = start(t, w, nil).login()
	c.expect("__COMMIT__:3", "RESEND") // by design: an ACK needs a proof that this is the same data
	c.expect("__COMMIT__:8", "RETRY")  // the checkpoint never learned of it
	c.expect("__COMMIT__:10", "RETRY")
	c.expect("__BATCH__:8:8", "RECEIVED")
	c.expect("__BATCH__:9:9", "RECEIVED")
	<-save.entered
	c.expect("__COMMIT__:3", "ACK:7")
	c.expect("__COMMIT__:8", "PENDING")
	save.open()
	c.eventually(9, "ACK:9")
	require.Equal(t, records("a", 1, 9), w.durable())
}

func TestB09RestoredStateLargerThanTheQueue(t *testing.T) {
	w := newWorld()
	w.write = never
	capacity := func(n int) func(*Options) {
		return limits(func(l *statemachine.Limits) { l.QueueCapacity, l.KeepPayloads = n, true })
	}
	ts := start(t, w, capacity(100))
	ts.login().batches(1, 100)
	until(t, "all are stored", func() bool { return len(w.image("a").Queue) == 100 })
	ts.kill()
	for _, n := range []int{10, 1} { // with the sink still failing
		ts = start(t, w, capacity(n))
		c := ts.login()
		require.Equal(t, n, ts.status("a").Held)
		require.Zero(t, ts.status("a").Committed, "restoring alone moves nothing")
		c.expect("__BATCH__:101:101", "QUEUE_FULL:500")
		until(t, "the smaller image is stored", func() bool { return len(w.image("a").Queue) == n })
		ts.kill()
	}
	w.write = nil
	c := start(t, w, capacity(1)).login()
	for id := 1; id <= 101; id++ {
		c.insist(fmt.Sprintf("__BATCH__:%d:%d", id, id))
	}
	c.eventually(101, "ACK:101")
	require.Equal(t, records("a", 1, 101), w.durable())
}

func TestB13CounterStartsAgain(t *testing.T) {
	const n = 1000
	w := newWorld()
	logs := new(logged)
	ts := start(t, w, func(o *Options) { o.Log = logs.logger() })
	c := ts.login()
	c.batches(1, n)
	c.eventually(n, fmt.Sprint("ACK:", n))
	c.conn.Close()

	c = ts.login()
	c.expect("__BATCH__:1:new-data", "CONFLICT")
	c.expect("__COMMIT__:1", "RETRY")
	c.expect(fmt.Sprintf("__BATCH__:%d:other-bytes", n), "RETRY")
	c.conn.Close()
	c = ts.login()
	c.expect(fmt.Sprintf("__BATCH__:%d:other-bytes", n), "CONFLICT")
	c.expect(fmt.Sprintf("__COMMIT__:%d", n), "RETRY")
	c.conn.Close()

	write := block()
	w.set(func() { w.write = write.write })
	c = ts.login()
	c.batches(n+1, n+1)
	c.expect(fmt.Sprintf("__BATCH__:%d:other-bytes", n+1), "CONFLICT")
	write.open()
	require.Equal(t, 3.0, ts.metric("tidemark_replies_total", `code="CONFLICT"`))
	require.Contains(t, logs.String(), "reply=CONFLICT")
	c.batches(n+1, n+1)
	c.eventually(n+1, fmt.Sprint("ACK:", n+1))
	require.Equal(t, records("a", 1, n+1), w.durable())
}

// failAt makes a sink that takes batches below the number, and then fails with what err gives.
func failAt(number uint64, err func() error) func(context.Context, sink.Delivery) (int, error) {
	return func(_ context.Context, d sink.Delivery) (int, error) {
		for i, b := range d.Batches {
			if b.ID >= number {
				if err := err(); err != nil {
					return i, err
				}
			}
		}
		return len(d.Batches), nil
	}
}

func TestB16SinkFailsOnWrite(t *testing.T) {
	w := newWorld()
	w.write = failAt(2, func() error { return passing })
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 3)
	c.eventually(1, "ACK:1")
	until(t, "the error is visible", func() bool { return ts.status("a").Waiting == "sink is retrying: "+passing.Error() })
	c.expect("__COMMIT__:3", "PENDING")
	require.EqualValues(t, 1, ts.status("a").Watermark)
	require.Positive(t, ts.metric("tidemark_sink_failures_total", `kind="transient"`))
	w.set(func() { w.write = nil })
	c.eventually(3, "ACK:3")
	require.Equal(t, records("a", 1, 3), w.durable())
}

func TestB16SinkFailsOnCommit(t *testing.T) {
	w := newWorld()
	w.commit = func(context.Context) error { return passing }
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 3)
	until(t, "the error is visible", func() bool { return ts.status("a").Waiting == "checkpoint is retrying: sink: "+passing.Error() })
	c.expect("__COMMIT__:3", "PENDING")
	require.Zero(t, w.called().save, "the store comes after the sink")
	require.Zero(t, ts.status("a").Committed)
	w.set(func() { w.commit = nil })
	c.eventually(3, "ACK:3")
	require.Equal(t, records("a", 1, 3), w.durable())
}

func TestB16SinkFailsOnce(t *testing.T) {
	w := newWorld()
	failed := false
	w.write = failAt(2, func() error {
		if failed {
			return nil
		}
		failed = true
		return passing
	})
	c := start(t, w, nil).login()
	c.batches(1, 3)
	c.eventually(3, "ACK:3")
	require.Equal(t, records("a", 1, 3), w.durable())
}

func TestB16KilledBetweenCommitAndStore(t *testing.T) {
	w := newWorld()
	save := block()
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 1)
	c.eventually(1, "ACK:1")
	w.set(func() { w.save = save.wait })
	c.batches(2, 3)
	<-save.entered // the sink has committed some of it, the store does not know
	require.Greater(t, len(w.durable()), 1)
	ts.kill()

	w.save = nil
	ts = start(t, w, nil)
	require.Equal(t, records("a", 1, 1), w.durable(), "what no checkpoint covers is undone")
	c = ts.login()
	c.expect("__COMMIT__:3", "RETRY")
	c.batches(2, 3)
	c.eventually(3, "ACK:3")
	require.Equal(t, records("a", 1, 3), w.durable())
}

func TestB16SinkBlocked(t *testing.T) {
	w := newWorld()
	write := block()
	w.write = write.write
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 3)
	<-write.entered
	c.expect("__COMMIT__:3", "PENDING")
	require.Zero(t, w.called().seal, "no barrier in the middle of a delivery")
	require.Equal(t, "in the queue", ts.status("a").Waiting)
	write.open()
	c.eventually(3, "ACK:3")
}

// A stored checkpoint is whole or not there: a commit that fails for good ends the server, nothing
// above the last one is acknowledged, and the next life goes on from there.
func TestB16FatalFailures(t *testing.T) {
	for name, breaks := range map[string]func(*world){
		"write":  func(w *world) { w.write = failAt(2, func() error { return errWorld }) },
		"seal":   func(w *world) { w.seal = func() error { return errWorld } },
		"commit": func(w *world) { w.commit = func(context.Context) error { return errWorld } },
		"save":   func(w *world) { w.save = func(context.Context) error { return errWorld } },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			ts := start(t, w, nil)
			c := ts.login()
			c.batches(1, 1)
			c.eventually(1, "ACK:1")
			w.set(func() { breaks(w) })
			c.send("__BATCH__:2:2", "__BATCH__:3:3")
			require.ErrorIs(t, <-ts.served, errWorld)
			for { // RECEIVED perhaps, and then the end; no ACK
				reply, err := c.in.ReadString('\n')
				if err != nil {
					break
				}
				require.Equal(t, "RECEIVED\n", reply)
			}
			require.ErrorIs(t, ts.Err(), errWorld)
			require.ErrorIs(t, ts.Shutdown(context.Background()), errWorld, "it returns, though nothing can be finished")
			_, err := ts.connect()
			require.Error(t, err, "the listener is closed")
			require.EqualValues(t, 1, w.image("a").Watermark)

			w.set(func() { w.write, w.seal, w.commit, w.save = nil, nil, nil, nil })
			c = start(t, w, nil).login()
			c.batches(2, 3)
			c.eventually(3, "ACK:3")
			require.Equal(t, records("a", 1, 3), w.durable())
		})
	}
}

func TestFatalBeforeServe(t *testing.T) {
	w := newWorld()
	w.write = never
	keep := limits(func(l *statemachine.Limits) { l.KeepPayloads = true })
	ts := start(t, w, keep)
	ts.login().batches(1, 1)
	until(t, "it is stored", func() bool { return len(w.image("a").Queue) == 1 })
	ts.kill()

	w.write = failAt(1, func() error { return errWorld })
	s, err := New(t.Context(), options(w, keep))
	require.NoError(t, err)
	<-s.failed
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorIs(t, s.Serve(l), errWorld)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, s.Shutdown(context.Background()), errWorld)
}

func TestFatalAnchor(t *testing.T) {
	w := newWorld()
	w.anchor = func(context.Context) error { return errWorld }
	ts := start(t, w, nil)
	c := ts.login()
	c.send("__BATCH__:1:1")
	require.ErrorIs(t, <-ts.served, errWorld)
	if reply, err := c.in.ReadString('\n'); err == nil {
		require.Equal(t, "QUEUE_FULL:500\n", reply)
	}
}

func TestB39StoreFull(t *testing.T) {
	for name, fill := range map[string]func(w *world, try func(error) error){
		"store": func(w *world, try func(error) error) {
			w.save = func(context.Context) error { return try(full) }
		},
		"commit": func(w *world, try func(error) error) {
			w.commit = func(context.Context) error { return try(passing) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testStoreFull(t, fill) })
		})
	}
}

func testStoreFull(t *testing.T, fill func(w *world, try func(error) error)) {
	w := newWorld()
	ts := startPipe(t, w, func(o *Options) {
		o.Backoff = Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
		o.IdleTimeout = time.Hour
	})
	c := ts.login()
	c.batches(1, 2)
	c.eventually(2, "ACK:2")
	tries := 0
	w.set(func() { fill(w, func(err error) error { tries++; return err }) })
	c.batches(3, 4)
	<-time.After(10 * time.Minute)
	c.expect("__COMMIT__:3", "PENDING")
	c.expect("__COMMIT__:2", "ACK:2")
	require.EqualValues(t, 2, w.image("a").Watermark, "the last good one is intact")
	synctest.Wait()
	require.InDelta(t, 125, tries, 10, "paced, one try every 5s")
	require.EqualValues(t, tries, ts.metric("tidemark_checkpoint_failures_total", ""))
	w.set(func() { w.save, w.commit = nil, nil })
	c.eventually(4, "ACK:4")
	require.Equal(t, records("a", 1, 4), w.durable())
}

func TestB39AnchorWhileTheStoreIsFull(t *testing.T) {
	w := newWorld()
	w.anchor = func(context.Context) error { return full }
	ts := start(t, w, nil)
	c := ts.login()
	c.expect("__BATCH__:1:1", "QUEUE_FULL:500")
	c.expect("__BATCH__:2:2", "QUEUE_FULL:500")
	c.expect("__COMMIT__:1", "RETRY")
	require.Zero(t, w.called().write)
	w.set(func() { w.anchor = nil })
	c.batches(1, 2)
	c.eventually(2, "ACK:2")
	ts.released()
}
