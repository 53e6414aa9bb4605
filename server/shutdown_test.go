package server

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// stopping begins a Shutdown.
func (ts *testServer) stopping(ctx context.Context) <-chan error {
	stopped := make(chan error, 1)
	go func() { stopped <- ts.Shutdown(ctx) }()
	return stopped
}

func TestB23NothingIsLostAtShutdown(t *testing.T) {
	w := newWorld()
	write := block()
	w.write = write.write
	ts := start(t, w, nil)
	c, idle := ts.login(), ts.loginAs("tok-B")
	c.batches(1, 1)
	<-write.entered
	c.batches(2, 4)
	c.write("__BATCH__:5:ha") // half a line
	stopped := ts.stopping(context.Background())
	require.ErrorIs(t, <-ts.served, ErrClosed)
	c.closed()
	idle.closed()
	_, err := ts.connect()
	require.Error(t, err, "it accepts nobody any more")
	write.open()
	require.NoError(t, <-stopped)
	require.Equal(t, records("a", 1, 4), w.durable())
	require.EqualValues(t, 4, w.image("a").Watermark)

	c = start(t, w, nil).login()
	c.batches(4, 4)
	c.expect("__COMMIT__:4", "ACK:4")
	c.expect("__COMMIT__:5", "RETRY")
}

// In a bubble: what Shutdown waits for, and for how long.
func TestB23ShutdownIsBounded(t *testing.T) {
	const limit = 10 * time.Second
	for name, test := range map[string]struct {
		world   func(*world)
		options func(*Options)
		takes   time.Duration
		err     error
		stored  uint64
	}{
		"slow sink": {
			world: func(w *world) {
				w.commit = func(ctx context.Context) error { <-time.After(4 * time.Second); return nil }
			},
			takes: 8 * time.Second, stored: 2, // two checkpoints
		},
		"failing sink": {world: func(w *world) { w.write = never }, takes: limit, err: context.DeadlineExceeded},
		"full store": {
			world: func(w *world) { w.save = func(context.Context) error { return full } },
			takes: limit, err: context.DeadlineExceeded,
		},
		"interval": {options: func(o *Options) { o.CheckpointInterval = time.Hour }, stored: 2},
		"refused":  {world: func(w *world) { w.write = refuse("1") }},
		"broken": {
			world: func(w *world) { w.save = func(context.Context) error { return errWorld } },
			err:   errWorld,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				if test.world != nil {
					test.world(w)
				}
				ts := startPipe(t, w, test.options)
				c, idle := ts.login(), ts.loginAs("tok-B")
				silent := ts.dial() // not authenticated
				c.send("__BATCH__:1:1")
				c.in.ReadString('\n') // RECEIVED, or the end of a server that is broken
				synctest.Wait()       // the first checkpoint is under way
				fmt.Fprintln(c.conn, "__BATCH__:2:2")
				c.in.ReadString('\n')
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				begin := time.Now()
				err := ts.Shutdown(ctx)
				require.Equal(t, test.takes, time.Since(begin))
				for _, c := range []*client{c, idle, silent} {
					c.closed()
				}
				require.ErrorIs(t, err, test.err)
				require.Equal(t, test.stored, w.image("a").Watermark)
			})
		})
	}
}

// A halted stream does not keep the server from stopping; its batches come again in the next life.
func TestB23ShutdownWithAHaltedStream(t *testing.T) {
	w := newWorld()
	w.write = refuse("poison")
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 1)
	c.expect("__BATCH__:2:poison", "RECEIVED")
	until(t, "the stream is halted", func() bool { return ts.status("a").Halted })
	require.NoError(t, ts.Shutdown(context.Background()))
	require.EqualValues(t, 1, w.image("a").Watermark)
	require.EqualValues(t, 2, w.image("a").Received)
	w.write = nil
	c = start(t, w, nil).login()
	c.expect("__COMMIT__:2", "RESEND")
}

// The context ends in the middle of a checkpoint: nothing above what is stored is acknowledged.
func TestB23StoppedInACheckpoint(t *testing.T) {
	for name, hang := range map[string]func(*world, *blocked){
		"write":  func(w *world, b *blocked) { w.write = b.write },
		"commit": func(w *world, b *blocked) { w.commit = b.wait },
		"save":   func(w *world, b *blocked) { w.save = b.wait },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			b := block()
			hang(w, b)
			ts := start(t, w, nil)
			c := ts.login()
			c.batches(1, 3)
			<-b.entered
			ctx, cancel := context.WithCancel(context.Background())
			stopped := ts.stopping(ctx)
			c.closed()
			again := ts.stopping(context.Background()) // waits for the first, and returns the same
			cancel()
			require.ErrorIs(t, <-stopped, context.Canceled)
			require.ErrorIs(t, <-again, context.Canceled)
			require.Zero(t, w.image("a").Watermark)

			w.set(func() { w.write, w.commit, w.save = nil, nil, nil })
			c = start(t, w, nil).login()
			c.batches(1, 3)
			c.eventually(3, "ACK:3")
			require.Equal(t, records("a", 1, 3), w.durable())
		})
	}
}

// The anchor is being stored when the server must stop.
func TestB23StoppedWhileAnchoring(t *testing.T) {
	w := newWorld()
	anchor := block()
	w.anchor = anchor.wait
	ts := start(t, w, nil)
	c := ts.login()
	c.send("__BATCH__:1:1")
	<-anchor.entered
	ctx, cancel := context.WithCancel(context.Background())
	stopped := ts.stopping(ctx)
	cancel()
	require.NoError(t, <-stopped, "nothing was accepted, so nothing is left behind")
	require.NoError(t, ts.Err(), "being stopped is no failure of the store")
}

// A connection that waits for the seat when the server stops is not served, and holds up nothing.
func TestB23StoppedWhileWaitingForTheSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), func(o *Options) { o.SeatWait = 2 * time.Second })
		ts.login()
		second := ts.dial()
		second.send("__AUTH__:tok-A")
		synctest.Wait()
		begin := time.Now()
		stopped := ts.stopping(context.Background())
		require.Equal(t, "ACK", second.reply(), "the first one has gone")
		second.closed()
		require.NoError(t, <-stopped)
		require.Zero(t, time.Since(begin))
	})
}

// Every batch answered RECEIVED is there after the restart, or asked for, or unknown; connections and
// the end race here.
func TestB23UnderLoad(t *testing.T) {
	random := seeded(t)
	for range 20 {
		w := newWorld()
		ts := start(t, w, nil)
		c := ts.login()
		go func() {
			for id := 1; id <= 2000; id++ {
				if _, err := fmt.Fprintf(c.conn, "__BATCH__:%d:%d\n", id, id); err != nil {
					return
				}
			}
		}()
		received, stop := 0, 1+random.IntN(500)
		var stopped <-chan error
		for {
			reply, err := c.in.ReadString('\n')
			if err != nil {
				break
			}
			if reply != "RECEIVED\n" {
				continue
			}
			if received++; received == stop {
				stopped = ts.stopping(context.Background())
			}
		}
		require.NoError(t, <-stopped)
		require.GreaterOrEqual(t, w.image("a").Watermark, uint64(received))
		require.Equal(t, records("a", 1, int(w.image("a").Watermark)), w.durable())
	}
}

func TestServeAfterShutdown(t *testing.T) {
	ts := start(t, newWorld(), nil)
	require.NoError(t, ts.Shutdown(context.Background()))
	l := &pipes{closed: make(chan struct{})}
	require.ErrorIs(t, ts.Serve(l), ErrClosed)
	<-l.closed
}

func TestRestartKeepsEverySnapshotForm(t *testing.T) {
	for _, keep := range []bool{false, true} {
		w := newWorld()
		change := limits(func(l *statemachine.Limits) { l.KeepPayloads = keep })
		sent := 0
		for range 10 {
			ts := start(t, w, change)
			c := ts.login()
			c.batches(sent+1, sent+7)
			sent += 7
			until(t, "some of it is committed", func() bool { return ts.status("a").Committed >= uint64(sent-3) })
			ts.kill()
			sent = int(w.image("a").Received)
			if !keep {
				sent = int(w.image("a").Watermark)
			}
		}
		ts := start(t, w, change)
		c := ts.login()
		c.batches(sent+1, sent+1)
		c.eventually(sent+1, fmt.Sprint("ACK:", sent+1))
		require.Equal(t, records("a", 1, sent+1), w.durable())
	}
}

// Neither a peer that does not read nor a number that will not come any more keeps the server from
// stopping in time and whole. In real time: in a bubble it does not pass while a lock is waited for.
func TestB23ShutdownWithADeafPeerAndAGap(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := startPipe(t, w, func(o *Options) { o.Durable, o.ReceivedWait, o.WriteTimeout = true, time.Hour, time.Hour })
	c, deaf := ts.login(), ts.loginAs("tok-B")
	c.batches(1, 1)
	c.send("__BATCH__:3:3") // held back: 2 is missing
	deaf.send("__BATCH__:1:1")
	until(t, "all are here", func() bool { return ts.status("a").Received == 3 && ts.status("b").Committed == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stopped := ts.stopping(ctx)
	require.Equal(t, "QUEUE_FULL:500", c.reply())
	c.closed()
	require.NoError(t, <-stopped)
	require.NoError(t, ctx.Err(), "it did not need all of its time")
	require.ElementsMatch(t, []string{"a/1", "a/3", "b/1"}, w.durable())
	require.EqualValues(t, 1, w.image("a").Watermark)
	require.EqualValues(t, 3, w.image("a").Received)
	require.EqualValues(t, 1, w.image("b").Watermark)
}
