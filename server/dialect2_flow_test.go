package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// What a collector of dialect 2 may send, and what it is told when that can't be taken.

func TestWindowInBatches(t *testing.T) {
	w := newWorld()
	w.gaps = true
	write := block()
	w.write = write.write
	ts := start(t, w, limits(func(l *statemachine.Limits) { l.QueueCapacity = 4 }))
	c, welcome := ts.seat("i", 11, 11)
	require.EqualValues(t, 4, welcome.WindowBatches)
	c.expect("ACK 10")
	c.batches(11, 14)
	c.ready()
	require.EqualValues(t, 14, ts.status("a").Received, "the whole window is taken")
	c.batches(15, 15)
	c.over("WINDOW")
	require.EqualValues(t, 14, ts.status("a").Received)

	c, _ = ts.seat("i", 11, 16)
	c.expect("ACK 10")
	large := protocol.AppendBatch2(nil, 15, 1, make([]byte, protocol.DefaultMaxBatch+1)) // also beyond
	c.conn.Write(large)                                                                  // it need not be read to its end
	c.over("WINDOW")
	write.open()
	until(t, "all is acknowledged", func() bool { return ts.status("a").Committed == 14 })
	c, _ = ts.seat("i", 15, 16)
	c.expect("ACK 14")
	c.batches(15, 18) // the window moves with the watermark
	c.acked(18)
}

// The window in bytes is a share of the memory: it is told again when that has changed much, with the next ACK.
func TestWindowFollowsTheShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), func(o *Options) {
			o.TotalBytes = 6 << 20
			o.Auth = func(token []byte) (string, bool) { return string(token), true }
		})
		c, welcome := ts.seatOf("a")
		require.EqualValues(t, 6<<20, welcome.WindowBytes)
		var others []*client2
		for _, name := range []string{"b", "c"} {
			other, _ := ts.seatOf(name)
			others = append(others, other)
		}
		c.batches(1, 1)
		c.expect("ACK 1", "WINDOW 1024 2097152")
		c.batches(2, 2)
		c.expect("ACK 2") // nothing has changed
		for _, other := range others {
			other.conn.Close()
		}
		synctest.Wait()
		c.batches(3, 3)
		c.expect("ACK 3", "WINDOW 1024 6291456")
	})
}

// seatOf is the seat of a collector whose token is its name.
func (ts *testServer) seatOf(name string) (*client2, *protocol.Welcome) {
	ts.t.Helper()
	c := ts.dial2()
	welcome := c.welcomed(&protocol.Hello{Collector: name, Instance: "i", Token: name})
	c.say("READY")
	return c.ready(), welcome
}

// With no memory the batch is asked for again, and nothing above it is taken until it comes.
func TestResendWhenMemoryIsShort(t *testing.T) {
	w := newWorld()
	write := block()
	w.write = write.write
	ts := start(t, w, func(o *Options) { o.TotalBytes = 100 })
	c, welcome := ts.seat("i", 0, 0)
	require.Equal(t, 100, welcome.MaxBatchBytes)
	long := strings.Repeat("x", 59)
	c.write(batch2(1, long))
	c.write(batch2(2, long))
	c.expect("RESEND 2 500")
	c.batches(3, 4)
	c.write(batch2(1, long)) // below it all is as ever
	c.ready()
	require.EqualValues(t, 1, ts.status("a").Received)
	c.write(batch2(2, long)) // refused again, and said again
	c.expect("RESEND 2 500")
	write.open()
	c.acked(1)
	c.write(batch2(2, long)) // the one who hears of the ACK finds the room
	c.batches(3, 4)
	c.acked(4)
	require.Equal(t, []string{"a/" + long, "a/" + long, "a/3", "a/4"}, w.durable())
	ts.released()
}

// A number that got RESEND may also come as a batch that is refused for good: then what is above it is taken.
func TestNackEndsAResend(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, func(o *Options) { o.TotalBytes = 100 })
	c, _ := ts.seat("i", 0, 0)
	ts.memory.Add(100)
	c.batches(1, 1)
	c.expect("RESEND 1 500")
	ts.memory.Add(-100)
	c.say("BATCH 1 2 2\r\n\x01x")
	c.expect("NACK 1 DECODE_FAILED")
	c.say("SKIP 1")
	c.batches(2, 2)
	c.acked(2)
	ts.released()
}

// A halted stream takes nothing: RESEND with a wait each time, so that the collector does not spin.
func TestB29HaltedStreamAnswersResend(t *testing.T) {
	w := newWorld()
	w.write = func(_ context.Context, d sink.Delivery) (int, error) {
		return 0, &sink.Refused{Batch: d.Batches[0].ID, Err: errWorld}
	}
	ts := start(t, w, func(o *Options) {
		o.Limits, o.RetryAfter = statemachine.DefaultLimits(), time.Nanosecond
		o.Limits.MaxNacks = 1
	})
	c, _ := ts.seat("i", 0, 0)
	c.batches(1, 1)
	until(t, "the stream is halted", func() bool { return ts.status("a").Halted })
	for range 3 {
		c.batches(2, 3)
		c.expect("RESEND 2 1")
	}
	require.EqualValues(t, 1, ts.status("a").Received)
	w.set(func() { w.write = nil })
	require.NoError(t, ts.Resume("a"))
	c.batches(2, 3)
	c.acked(3)
}

func TestNackAndSkip(t *testing.T) {
	w := newWorld()
	w.gaps = true
	logs := new(logged)
	ts := start(t, w, func(o *Options) { o.MaxLineBytes, o.Log = 100, logs.logger() })
	c, _ := ts.seat("i", 0, 0)
	id := uint64(1)
	for _, bad := range []struct{ batch, reason string }{
		{"BATCH %d 1 5\r\n\x04a\nbc", "DECODE_FAILED"}, // the sink's records end with LF
		{"BATCH %d 2 2\r\n\x01x", "DECODE_FAILED"},     // another count
		{"BATCH %d 1 2\r\n\x02x", "DECODE_FAILED"},     // no record
		{"BATCH %d 1 101\r\n" + strings.Repeat("x", 101), "TOO_LARGE"},
	} {
		c.say(fmt.Sprintf(bad.batch, id))
		c.batches(id+1, id+1) // what is above it is taken
		c.expect(fmt.Sprintf("NACK %d %s", id, bad.reason))
		until(t, "the next one is delivered", func() bool { return ts.status("a").Held == 0 })
		require.Equal(t, id-1, ts.status("a").Committed, "and the watermark waits")
		c.say(fmt.Sprint("SKIP ", id))
		c.acked(id + 1)
		c.say(fmt.Sprint("SKIP ", id)) // once
		c.ready()
		require.Contains(t, logs.String(), fmt.Sprintf("collector=a first=%d last=%d", id, id))
		id += 2
		require.EqualValues(t, id/2, ts.metric("tidemark_lost_batches_total", `collector="a"`))
	}
	require.Equal(t, []string{"a/2", "a/4", "a/6", "a/8"}, w.durable())
	ts.released()
}

// A batch that was refused for good may also come as it should be; SKIP then gives up nothing.
func TestNackAndBetter(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c, _ := ts.seat("i", 0, 0)
	c.say("BATCH 1 2 2\r\n\x01x")
	c.expect("NACK 1 DECODE_FAILED")
	c.batches(1, 1)
	c.say("SKIP 1")
	c.acked(1)
	require.Zero(t, ts.metric("tidemark_lost_batches_total", ""))
	for _, conn := range ts.live() {
		require.Empty(t, conn.nacked)
	}
}

func TestConflictAndStale2(t *testing.T) {
	w := newWorld()
	ts := start(t, w, limits(func(l *statemachine.Limits) { l.History, l.Ahead = 5, 5 }))
	c, _ := ts.seat("i", 0, 0)
	for id := uint64(1); id <= 12; id++ {
		c.batches(id, id)
		c.acked(id)
	}
	c.batches(12, 12) // the same again is no news
	c.write(batch2(12, "other"))
	c.batches(13, 13)
	c.expect("NACK 12 CONFLICT")
	c.ended() // no ACK covers the number on this connection
	c, _ = ts.seat("i", 13, 13)
	c.acked(12)
	c.batches(3, 3)
	c.expect("NACK 3 STALE")
	c.ended()
	require.Equal(t, records("a", 1, 12), w.durable())
	require.Zero(t, ts.metric("tidemark_lost_batches_total", ""))
}

// A collector that reads slowly is told the newest watermark, not all of them.
func TestAcksAreMergedForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), nil)
		c, _ := ts.seat("i", 0, 0)
		goroutines := 0
		for id := uint64(1); id <= 300; id++ {
			c.batches(id, id)
			synctest.Wait()
			require.Equal(t, id, ts.status("a").Committed)
			if id == 3 {
				goroutines, _ = resources()
			}
		}
		after, _ := resources()
		require.LessOrEqual(t, after, goroutines)
		for _, conn := range ts.live() {
			require.Less(t, cap(conn.out.buf)+cap(conn.out.spare), firstRead)
		}
		c.expect("ACK 1", "ACK 300")
		c.batches(301, 301)
		c.expect("ACK 301")
	})
}

// A peer that never reads is dropped when the time is over, and the next connection of its instance is not held up.
func TestPeerThatNeverReads2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ts := startPipe(t, w, func(o *Options) { o.WriteTimeout = 10 * time.Second })
		begin := time.Now()
		deaf, _ := ts.seat("i", 0, 0)
		deaf.batches(1, 1)
		deaf.say("PING") // the reader, too, writes now
		synctest.Wait()
		fresh, welcome := ts.seat("i", 2, 2)
		require.EqualValues(t, 1, welcome.Committed)
		fresh.expect("ACK 1")
		fresh.batches(2, 2)
		fresh.acked(2)
		require.Zero(t, time.Since(begin))
		require.Len(t, ts.live(), 2)
		<-time.After(10 * time.Second)
		synctest.Wait()
		require.Len(t, ts.live(), 1)
		require.Equal(t, 1.0, ts.metric("tidemark_connections_refused_total", `reason="write-timeout"`))
		fresh.batches(3, 3)
		fresh.acked(3)
		require.Equal(t, records("a", 1, 3), w.durable())
	})
}

// The seat of one that never reads is free for another instance and for dialect 1 when it is dropped.
func TestSeatOfAPeerThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), func(o *Options) { o.WriteTimeout, o.SeatWait = 10*time.Second, time.Minute })
		begin := time.Now()
		deaf, _ := ts.seat("i", 0, 0)
		deaf.batches(1, 1)
		ts.login()
		require.Equal(t, 10*time.Second, time.Since(begin))
	})
}
