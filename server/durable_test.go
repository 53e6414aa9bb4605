package server

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// RECEIVED held back until a checkpoint covers the batch.

func durable(o *Options) { o.Durable = true }

func TestDurableReceivedWaitsForTheCheckpoint(t *testing.T) {
	w := newWorld()
	save := block()
	w.save = save.wait
	ts := start(t, w, durable)
	c := ts.login()
	c.send("__BATCH__:1:1", "__COMMIT__:1", "nonsense", "__BATCH__:2:2", "__COMMIT__:9")
	<-save.entered
	until(t, "both are here", func() bool { return ts.status("a").Received == 2 })
	c.silent()
	save.open()
	// In the order of the requests: what was decided behind a held reply waits with it.
	require.Equal(t, []string{"RECEIVED", "PENDING", "BAD_REQUEST", "RECEIVED", "RETRY"}, c.replies(5))
	c.eventually(2, "ACK:2")
}

func TestDurableKnownBatchIsAnsweredAtOnce(t *testing.T) {
	w := newWorld()
	ts := start(t, w, durable)
	c := ts.login()
	c.batches(1, 3) // each waits for its own checkpoint
	w.set(func() { w.save = func(context.Context) error { return full } })
	c.batches(1, 3) // covered already
	require.Equal(t, records("a", 1, 3), w.durable())
}

func TestDurableTooLongBecomesQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		save := block()
		w.save = save.wait
		ts := startPipe(t, w, func(o *Options) { o.Durable, o.ReceivedWait = true, 10*time.Second })
		c := ts.login()
		begin := time.Now()
		c.send("__BATCH__:1:1")
		<-time.After(4 * time.Second)
		c.send("__BATCH__:2:2")
		require.Equal(t, "QUEUE_FULL:500", c.reply())
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.Equal(t, "QUEUE_FULL:500", c.reply())
		require.Equal(t, 14*time.Second, time.Since(begin))
		c.expect("__COMMIT__:1", "RETRY") // told it was refused, it sends it again
		c.send("__BATCH__:1:1", "__BATCH__:2:2")
		<-time.After(time.Second)
		save.open()
		require.Equal(t, []string{"RECEIVED", "RECEIVED"}, c.replies(2))
		require.Equal(t, records("a", 1, 2), w.durable(), "recognised, not delivered again")
		c.expect("__COMMIT__:2", "ACK:2")
		ts.released()
	})
}

// While a RECEIVED became QUEUE_FULL, what was accepted above it is not acknowledged past it.
func TestDurableQueueFullHoldsBackTheAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		save := block()
		w.save = save.wait
		ts := startPipe(t, w, func(o *Options) { o.Durable, o.ReceivedWait = true, 10*time.Second })
		c := ts.login()
		c.send("__BATCH__:1:1")
		<-time.After(5 * time.Second)
		c.send("__BATCH__:2:2")
		require.Equal(t, "QUEUE_FULL:500", c.reply())
		save.open()
		require.Equal(t, "RECEIVED", c.reply())
		c.expect("__COMMIT__:2", "RETRY")
		c.expect("__BATCH__:1:1", "RECEIVED")
		c.expect("__COMMIT__:2", "ACK:2")
	})
}

// A peer that asks on without end, behind a reply that waits, is not read from.
func TestDurableUncrowd(t *testing.T) {
	w := newWorld()
	save := block()
	w.save = save.wait
	ts := start(t, w, func(o *Options) { o.Durable, o.WriteTimeout = true, time.Minute })
	c := ts.login()
	c.send("__BATCH__:1:1")
	<-save.entered
	const asked = 3 * maxHeld
	sent := make(chan error, 1)
	go func() {
		for range asked {
			if _, err := c.conn.Write([]byte("__COMMIT__:1\n")); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	crowd := func() int {
		held := 0
		for _, conn := range ts.live() {
			conn.out.mu.Lock()
			held += len(conn.out.held)
			conn.out.mu.Unlock()
		}
		return held
	}
	until(t, "the outbox is crowded", func() bool { return crowd() == maxHeld })
	require.Equal(t, maxHeld, crowd())
	save.open()
	require.Equal(t, "RECEIVED", c.reply())
	for range asked {
		require.Contains(t, []string{"PENDING", "ACK:1"}, c.reply())
	}
	require.NoError(t, <-sent)
}

func (ts *testServer) live() []*connection {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var list []*connection
	for c := range ts.connections {
		list = append(list, c)
	}
	return list
}

// A crowded peer that never reads loses its connection, though the server waits for a reply to go, not
// for the peer; and the seat is free.
func TestDurableCrowdedPeerDoesNotRead(t *testing.T) {
	w := newWorld()
	w.save = block().wait
	// On a pipe, where nothing lies between the peers that could take a reply meanwhile.
	ts := startPipe(t, w, func(o *Options) {
		limits(func(l *statemachine.Limits) { l.QueueCapacity, l.Ahead, l.History = 3*maxHeld, 3*maxHeld, 3*maxHeld })(o)
		o.Durable, o.ReceivedWait, o.WriteTimeout = true, 500*time.Millisecond, 50*time.Millisecond
	})
	c := ts.login()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		lines := bytes.Buffer{}
		for id := 1; id <= 3*maxHeld; id++ {
			fmt.Fprintf(&lines, "__BATCH__:%d:%d\n", id, id)
		}
		c.conn.Write(lines.Bytes())
	}()
	ts.login()
	<-gone
}

func TestDurableShutdownSendsHeldReplies(t *testing.T) {
	w := newWorld()
	// With an interval: the last checkpoint does not wait for it.
	ts := start(t, w, func(o *Options) { o.Durable, o.CheckpointInterval = true, time.Hour })
	c := ts.login()
	c.batches(1, 1)
	save := block()
	w.set(func() { w.save = save.wait })
	c.send("__BATCH__:2:2", "__BATCH__:3:3")
	until(t, "both are delivered", func() bool { return ts.status("a").Watermark == 3 })
	stopped := make(chan error, 1)
	go func() { stopped <- ts.Shutdown(context.Background()) }()
	<-save.entered
	save.open()
	require.Equal(t, []string{"RECEIVED", "RECEIVED"}, c.replies(2))
	c.closed()
	require.NoError(t, <-stopped)
	require.Equal(t, records("a", 1, 3), w.durable())
	require.EqualValues(t, 3, w.image("a").Watermark)
}

// Shutdown that must not wait lets held replies go unanswered, and at once.
func TestDurableForcedShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.write = never
		ts := startPipe(t, w, func(o *Options) { o.Durable, o.ReceivedWait = true, time.Hour })
		c := ts.login()
		c.send("__BATCH__:1:1")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, ts.Shutdown(ctx), context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(begin))
		c.closed()
	})
}

func TestDurableFailureAnswersNothing(t *testing.T) {
	w := newWorld()
	w.save = func(context.Context) error { return errWorld }
	ts := start(t, w, func(o *Options) { o.Durable, o.ReceivedWait = true, time.Hour })
	c := ts.login()
	c.send("__BATCH__:1:1")
	c.closed()
	require.ErrorIs(t, <-ts.served, errWorld)
	require.ErrorIs(t, ts.Shutdown(context.Background()), errWorld)
}

// Held replies of a collector that owes a number become QUEUE_FULL, and the stream mends itself.
func TestDurableWithAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gaps = true
		ts := startPipe(t, w, durable)
		c := ts.login()
		c.send("__BATCH__:1:1", "__BATCH__:3:3")
		require.Equal(t, []string{"RECEIVED", "QUEUE_FULL:500"}, c.replies(2))
		c.send("__BATCH__:2:2", "__BATCH__:3:3")
		require.Equal(t, []string{"RECEIVED", "RECEIVED"}, c.replies(2))
		require.ElementsMatch(t, records("a", 1, 3), w.durable())
	})
}

// Every RECEIVED that leaves the server is durable by then: many collectors, batches in a window.
func TestDurableUnderLoad(t *testing.T) {
	const collectors, n = 4, 300
	w := newWorld()
	tokens := map[string]string{}
	for i := range collectors {
		tokens[fmt.Sprint("tok-", i)] = fmt.Sprint("c", i)
	}
	ts := start(t, w, func(o *Options) { o.Durable, o.Auth = true, Tokens(tokens) })
	done := make(chan struct{})
	for i := range collectors {
		c := ts.loginAs(fmt.Sprint("tok-", i))
		go func() {
			defer func() { done <- struct{}{} }()
			for first := 1; first <= n; first += 20 {
				for id := first; id < first+20; id++ {
					c.send(fmt.Sprintf("__BATCH__:%d:%d", id, id))
				}
				for id := first; id < first+20; id++ {
					if reply := c.reply(); reply != "RECEIVED" || w.image(fmt.Sprint("c", i)).Watermark < uint64(id) {
						c.t.Errorf("batch %d of collector %d: %s with %d stored", id, i, reply, w.image(fmt.Sprint("c", i)).Watermark)
						return
					}
				}
			}
		}()
	}
	for range collectors {
		<-done
	}
	require.Len(t, w.durable(), collectors*n)
	ts.released()
}

func TestDurableRefusedAboveIsInOrder(t *testing.T) {
	w := newWorld()
	save := block()
	w.save = save.wait
	c := start(t, w, func(o *Options) {
		o.Durable = true
		limits(func(l *statemachine.Limits) { l.QueueCapacity = 2 })(o)
	}).login()
	c.send("__BATCH__:1:1", "__BATCH__:2:2", "__BATCH__:3:3", "__BATCH__:4:4")
	<-save.entered
	save.open()
	require.Equal(t, []string{"RECEIVED", "RECEIVED"}, c.replies(2))
	require.Contains(t, []string{"QUEUE_FULL:500", "RECEIVED"}, c.reply())
	c.reply()
	c.insist("__BATCH__:3:3")
	c.insist("__BATCH__:4:4")
	require.Equal(t, records("a", 1, 4), w.durable())
}

// A batch that was answered QUEUE_FULL after it had been sent again is not refused: its last answer is
// the one that counts, and nothing waits for it to come a third time.
func TestDurableLateQueueFullOfABatchSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		save := block()
		w.save = save.wait
		ts := startPipe(t, w, func(o *Options) { o.Durable, o.ReceivedWait = true, 10*time.Second })
		c := ts.login()
		begin := time.Now()
		c.send("__BATCH__:1:1")
		<-time.After(5 * time.Second)
		c.send("__BATCH__:2:2")
		require.Equal(t, "QUEUE_FULL:500", c.reply())
		c.send("__BATCH__:1:1", "__BATCH__:2:2") // both wait behind the first 2
		require.Equal(t, "QUEUE_FULL:500", c.reply())
		require.Equal(t, 15*time.Second, time.Since(begin))
		save.open()
		require.Equal(t, []string{"RECEIVED", "RECEIVED"}, c.replies(2))
		require.Equal(t, 15*time.Second, time.Since(begin))
		c.expect("__COMMIT__:2", "ACK:2")
		c.expect("__BATCH__:3:3", "RECEIVED")
		c.expect("__COMMIT__:3", "ACK:3")
		require.Equal(t, records("a", 1, 3), w.durable())
		ts.released()
	})
}
