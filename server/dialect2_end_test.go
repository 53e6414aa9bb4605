package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// Signs of life, and how a connection of dialect 2 ends.

// Both sides hear something at least every third of the idle limit, and one that says nothing is closed.
func TestPingAndIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), func(o *Options) { o.IdleTimeout = time.Minute })
		c, welcome := ts.seat("i", 0, 0)
		require.Equal(t, time.Minute, welcome.Idle)
		begin := time.Now()
		at := func(want time.Duration, message string) {
			t.Helper()
			c.expect(message)
			require.Equal(t, want, time.Since(begin))
		}
		at(20*time.Second, "PING")
		at(40*time.Second, "PING")
		<-time.After(20*time.Second - time.Nanosecond)
		c.say("PONG") // just in time
		at(time.Minute, "PING")
		at(80*time.Second, "PING")
		at(100*time.Second, "PING")
		at(2*time.Minute-time.Nanosecond, "ERROR IDLE")
		c.ended()
		require.Equal(t, 1.0, ts.metric("tidemark_connections_refused_total", ""))
		require.False(t, ts.status("a").Connected)
	})
}

// A collector that sends all the time while nothing can be acknowledged hears that the ingress lives.
func TestPingBesideBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.write = block().write
		ts := startPipe(t, w, func(o *Options) { o.IdleTimeout = time.Minute })
		c, _ := ts.seat("i", 0, 0)
		begin := time.Now()
		go func() {
			for id := uint64(1); id <= 20; id++ {
				<-time.After(7 * time.Second)
				c.conn.Write(batch2(id, "x"))
			}
		}()
		for i := range 6 {
			c.expect("PING")
			require.Equal(t, time.Duration(i+1)*20*time.Second, time.Since(begin))
		}
		<-time.After(30 * time.Second)
		c.conn.Close()
	})
}

// The time in which the ingress itself did not read does not count.
func TestSlowStoreIsNoIdleCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		anchor := block()
		w.anchor = anchor.wait
		ts := startPipe(t, w, func(o *Options) { o.IdleTimeout = time.Minute })
		c, _ := ts.seat("i", 0, 0)
		<-time.After(5 * time.Minute)
		anchor.open()
		c.expect("PING") // it is late
		c.batches(1, 1)
		c.acked(1)
	})
}

func TestBye(t *testing.T) {
	w := newWorld()
	commit := block()
	ts := start(t, w, nil)
	c, _ := ts.seat("i", 0, 0)
	c.say("BYE") // nothing is held
	c.expect("BYE")
	c.ended()

	w.set(func() { w.commit = commit.wait })
	c, _ = ts.seat("i", 1, 1)
	c.batches(1, 3)
	c.say("BYE")
	<-commit.entered
	c.say("PING")
	c.expect("PONG") // and no BYE so far
	commit.open()
	c.acked(3)
	c.expect("BYE")
	c.ended()
	until(t, "the seat is free", func() bool { return !ts.status("a").Connected })
	require.Equal(t, records("a", 1, 3), w.durable())
}

// What was skipped last is acknowledged, too, before BYE.
func TestByeAfterSkip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gaps = true
		commit := block()
		w.commit = commit.wait
		ts := startPipe(t, w, nil)
		c, _ := ts.seat("i", 0, 0)
		c.say("BATCH 1 2 2\r\n\x01x")
		c.expect("NACK 1 DECODE_FAILED")
		c.say("SKIP 1")
		c.say("BYE")
		<-commit.entered
		c.silent2()
		commit.open()
		c.expect("ACK 1", "BYE")
		c.ended()
	})
}

// The last word arrives, however much the peer has sent behind what ended the connection.
func TestLastWordArrives(t *testing.T) {
	ts := start(t, newWorld(), nil)
	c, _ := ts.seat("i", 0, 0)
	c.ready()
	c.write(append([]byte("NONSENSE\r\n"), make([]byte, 200_000)...)) // fits into the buffers of the two systems
	c.over("BAD_REQUEST")
}

// With a number missing the watermark can't reach what was taken: BYE says that no more will come of it.
func TestByeBelowAGap(t *testing.T) {
	w := newWorld()
	w.gaps = true
	c, _ := start(t, w, nil).seat("i", 0, 0)
	c.batches(1, 1)
	c.batches(3, 3)
	c.say("BYE")
	c.expect("ACK 1", "BYE")
	c.ended()
	require.Equal(t, []string{"a/1", "a/3"}, w.durable())
}

// At shutdown collectors are told, and then hear the last ACK, whatever they still send.
func TestGoawayAndTheLastAck(t *testing.T) {
	w := newWorld()
	commit := block()
	w.commit = commit.wait
	ts := start(t, w, nil)
	c, _ := ts.seat("i", 0, 0)
	asker := ts.dial2()
	asker.welcomed(hello2b("i"))
	c.batches(1, 3)
	c.ready()
	<-commit.entered
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- ts.Shutdown(ctx)
	}()
	asker.expect("GOAWAY 500")
	asker.ended()
	asker.conn.Close()
	c.expect("GOAWAY 500")
	c.batches(4, 500)
	commit.open()
	require.NoError(t, <-done)
	c.acked(3) // it has arrived, though the collector reads it late and has sent more
	c.ended()
	require.ErrorIs(t, <-ts.served, ErrClosed)
	require.Equal(t, records("a", 1, 3), w.durable())
}

// hello2b is what collector b says when it is new.
func hello2b(instance string) *protocol.Hello {
	return &protocol.Hello{Collector: "b", Instance: instance, Token: "tok-B"}
}

// A forced stop waits for nobody.
func TestForcedStop2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.commit = block().wait
		ts := startPipe(t, w, nil)
		c, _ := ts.seat("i", 0, 0)
		c.batches(1, 1)
		synctest.Wait()
		go func() {
			for {
				if _, err := c.read(); err != nil {
					return
				}
			}
		}()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.Error(t, ts.Shutdown(ctx))
		require.Equal(t, 3*time.Second, time.Since(begin))
	})
}

// A peer that does not read holds up the stop for no longer than a second.
func TestDeafPeerAtShutdown2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), nil)
		c, _ := ts.seat("i", 0, 0)
		c.batches(1, 1)
		synctest.Wait()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, ts.Shutdown(ctx))
		require.LessOrEqual(t, time.Since(begin), 2*hurryTime)
	})
}
