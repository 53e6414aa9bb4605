package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

// Who writes a stream in dialect 2: takeovers, instances, and what of it the store knows.

// The older connection is told and closed at HELLO, and what it still sends changes nothing, whenever it comes.
func TestB20TakeoverByTheSameInstance(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	random := seeded(t)
	old, _ := ts.seat("i", 0, 0)
	next := uint64(1)
	old.batches(next, next)
	old.acked(next)
	for range 60 {
		next++
		late := batch2(next, "late")
		old.ready()
		fresh := ts.dial2()
		when, gone := random.IntN(4), random.IntN(3)
		hello := func() { require.EqualValues(t, next-1, fresh.welcomed(hello2("i", next, next)).Received) }
		ready := func() { fresh.write(protocol.AppendReady2(nil)) }
		from := old.conn
		lately := func() { from.Write(late) } // it may fail: the connection is being closed
		switch when {
		case 0:
			hello()
			lately()
			ready()
		case 1:
			hello()
			ready()
			lately()
		case 2: // at the same time
			hello()
			go lately()
			ready()
		case 3:
			hello()
			ready()
			fresh.readyAt(next - 1)
			lately()
		}
		switch gone {
		case 0:
			old.conn.Close()
		case 1:
			old.conn.(*net.TCPConn).SetLinger(0)
			old.conn.Close()
		case 2:
			old.over("FENCED")
			old.conn.Close()
		}
		fresh.batches(next, next)
		fresh.acked(next)
		require.True(t, ts.status("a").Connected)
		until(t, "the old one is forgotten", func() bool { return len(ts.live()) == 1 })
		old = fresh
	}
	require.Equal(t, records("a", 1, int(next)), w.durable())
	require.EqualValues(t, 60, ts.metric("tidemark_connections_refused_total", `reason="fenced"`))
}

// What the older connection sent before it was taken over, and the server has read and not looked at yet, is dropped
// as well: after HELLO, and after READY.
func TestB20LateBatchInTheBuffer(t *testing.T) {
	for _, afterReady := range []bool{false, true} {
		w := newWorld()
		pause := &pausing{Handler: slog.DiscardHandler, at: "batch refused for good", blocked: block()}
		ts := start(t, w, func(o *Options) { o.Log = slog.New(pause) })
		old, _ := ts.seat("i", 0, 0)
		old.say("BATCH 1 2 2\r\n\x01x\r\nBATCH 1 1 2\r\n\x01x\r\nSKIP 1\r\nBATCH 2 1 2\r\n\x01x\r\nBATCH 9999 1 2\r\n\x01x\r\nBYE")
		<-pause.entered // all of it is read, and the first is being refused
		fresh := ts.dial2()
		fresh.welcomed(hello2("i", 1, 2))
		if afterReady {
			fresh.say("READY")
			fresh.ready()
		}
		pause.open()
		old.over("FENCED") // and no answer to any of it behind that
		if !afterReady {
			fresh.say("READY")
		}
		fresh.batches(1, 1)
		fresh.acked(1)
		require.EqualValues(t, 1, ts.status("a").Received)
		require.Equal(t, []string{"a/1"}, w.durable())
		require.Zero(t, ts.metric("tidemark_lost_batches_total", ""))
	}
}

// pausing is a log that blocks at one kind of line: where a connection stands still between two messages.
type pausing struct {
	slog.Handler
	at string
	*blocked
}

func (p *pausing) Enabled(context.Context, slog.Level) bool { return true }

func (p *pausing) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == p.at {
		return p.wait(ctx)
	}
	return nil
}

// readyAt waits until the connection has the seat, and reads the watermark that it is told again.
func (c *client2) readyAt(watermark uint64) {
	c.t.Helper()
	c.write(protocol.AppendPing2(nil))
	for pong := false; !pong || watermark > 0; {
		switch r := c.next(); r.Code {
		case protocol.CodePong:
			pong = true
		default:
			require.Equal(c.t, fmt.Sprint("ACK ", watermark), line(r))
			watermark = 0
		}
	}
}

// A batch that came before HELLO counts: WELCOME tells of it.
func TestBatchBeforeTheNewHello(t *testing.T) {
	w := newWorld()
	write := block()
	w.write = write.write
	ts := start(t, w, nil)
	old, _ := ts.seat("i", 0, 0)
	old.batches(1, 2)
	old.ready()
	fresh, welcome := ts.seat("i", 1, 3)
	require.Equal(t, [2]uint64{0, 2}, [2]uint64{welcome.Committed, welcome.Received})
	old.over("FENCED")
	write.open()
	fresh.acked(2)
	require.Equal(t, records("a", 1, 2), w.durable())
}

// What completes between WELCOME and READY, or while the seat is being stored, is told to the new connection.
func TestAckOfWhatCompletedBeforeReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		commit := block()
		w.commit = commit.wait
		ts := startPipe(t, w, nil)
		old, _ := ts.seat("i", 0, 0)
		old.batches(1, 2)
		old.ready() // both were read
		<-commit.entered
		fresh := ts.dial2()
		require.Zero(t, fresh.welcomed(hello2("i", 1, 3)).Committed)
		old.over("FENCED")
		commit.open()
		synctest.Wait() // both are committed, and nobody was told
		require.EqualValues(t, 2, ts.status("a").Committed)
		fresh.write(protocol.AppendReady2(nil))
		fresh.acked(2)
	})
}

func TestAckOfWhatCompletedWhileTheSeatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		commit, anchor := block(), block()
		w.commit = commit.wait
		ts := startPipe(t, w, nil)
		old, _ := ts.seat("i", 0, 0)
		old.batches(1, 1)
		<-commit.entered
		old.conn.Close()
		synctest.Wait()
		w.set(func() { w.anchor = anchor.wait })
		fresh, welcome := ts.seat("j", 0, 0)
		require.Zero(t, welcome.Committed)
		<-anchor.entered
		commit.open()
		synctest.Wait()
		require.EqualValues(t, 1, ts.status("a").Committed)
		fresh.silent2()
		anchor.open()
		fresh.acked(1)
	})
}

// silent2 demands in a bubble that nothing has come.
func (c *client2) silent2() {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	r, err := c.read()
	require.Error(c.t, err, line2(r))
	c.conn.SetReadDeadline(time.Time{})
}

// A connection that was welcomed and overtaken is told so when it is ready, also while its seat is being stored.
func TestOvertakenBeforeReady(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	first := ts.dial2()
	first.welcomed(hello2("i", 0, 0))
	second := ts.dial2()
	second.welcomed(hello2("i", 0, 0))
	first.say("READY")
	first.over("FENCED")

	anchor := block()
	w.set(func() { w.anchor = anchor.wait })
	second.say("READY")
	<-anchor.entered
	ts.refused(hello2("j", 0, 0), "REJECTED") // it counts as alive
	third := ts.dial2()
	third.welcomed(hello2("i", 0, 0))
	anchor.open()
	second.over("FENCED")
	third.say("READY")
	third.batches(1, 1)
	third.acked(1)
	require.Equal(t, 1, w.called().anchor)
}

func TestRejectedAndSuperseded(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c, _ := ts.seat("one", 0, 0)
	c.batches(1, 1)
	c.acked(1)
	ts.refused(hello2("two", 0, 0), "REJECTED")
	c.conn.Close()
	until(t, "the seat is free", func() bool { return !ts.status("a").Connected })
	two, welcome := ts.seat("two", 0, 0)
	require.EqualValues(t, 1, welcome.Received)
	two.batches(2, 2)
	two.acked(2)
	ts.refused(hello2("one", 2, 2), "RETIRED")
	require.Equal(t, statemachine.SeatImage{Instance: "two", Retired: []string{"one"}}, w.stored.Seats["a"])
	ts.kill()

	ts = start(t, w, nil) // the store remembers
	ts.refused(hello2("one", 2, 2), "RETIRED")
	two, welcome = ts.seat("two", 3, 3)
	require.Equal(t, [2]uint64{2, 2}, [2]uint64{welcome.Committed, welcome.Received})
	two.batches(3, 3)
	two.acked(3)
	require.Equal(t, records("a", 1, 3), w.durable())
	require.Equal(t, 2, w.called().anchor, "what is stored is not stored again")
}

func TestSixteenRetiredSurviveARestart(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	for i := range statemachine.MaxRetired + 2 {
		c, _ := ts.seat(fmt.Sprint("i", i), 0, 0)
		c.ready()
		c.conn.Close()
		until(t, "the seat is free", func() bool { return !ts.status("a").Connected })
	}
	ts.kill()
	ts = start(t, w, nil)
	for i := 1; i <= statemachine.MaxRetired; i++ {
		ts.refused(hello2(fmt.Sprint("i", i), 1, 1), "RETIRED")
	}
	require.Len(t, w.stored.Seats["a"].Retired, statemachine.MaxRetired)
	ts.seat("i0", 0, 0) // too long ago
}

// A store that fails for now: the collector comes again, and nothing was answered before.
func TestSeatIsStoredAtLast(t *testing.T) {
	w := newWorld()
	w.anchor = func(context.Context) error { return full }
	ts := start(t, w, nil)
	c, _ := ts.seat("i", 5, 5)
	c.batches(5, 5)
	c.expect("GOAWAY 500")
	c.ended()
	require.Empty(t, w.stored.Seats)
	require.Zero(t, w.called().write)
	until(t, "the seat is free", func() bool { return !ts.status("a").Connected })

	w.set(func() { w.anchor, w.gaps = nil, true })
	c, welcome := ts.seat("i", 5, 6)
	require.EqualValues(t, 4, welcome.Received)
	c.batches(5, 5)
	c.acked(5)
	require.Equal(t, "i", w.stored.Seats["a"].Instance)
	require.True(t, w.image("a").Anchored)
	require.NoError(t, ts.Err())
}

func TestStoreFailsForGoodAtReady(t *testing.T) {
	w := newWorld()
	w.anchor = func(context.Context) error { return errWorld }
	ts := start(t, w, nil)
	c, _ := ts.seat("i", 0, 0)
	require.ErrorIs(t, <-ts.served, errWorld)
	c.nothingAcked()
	require.Empty(t, w.stored.Seats)
}

// nothingAcked demands the end of the connection before any ACK.
func (c *client2) nothingAcked() {
	c.t.Helper()
	for {
		r, err := c.read()
		if err != nil {
			return
		}
		require.Equal(c.t, protocol.CodeGoaway, r.Code, line(r))
	}
}

// A crash between READY and the store: the next life does not know the instance, and nothing was promised.
func TestCrashBeforeTheSeatIsStored(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c, _ := ts.seat("one", 0, 0)
	c.batches(1, 1)
	c.acked(1)
	c.conn.Close()
	until(t, "the seat is free", func() bool { return !ts.status("a").Connected })
	anchor := block()
	w.set(func() { w.anchor = anchor.wait })
	c, _ = ts.seat("two", 0, 0)
	c.batches(2, 2)
	<-anchor.entered
	ts.kill()
	c.nothingAcked()
	require.Equal(t, statemachine.SeatImage{Instance: "one"}, w.stored.Seats["a"])

	w.anchor = nil
	ts = start(t, w, nil)
	c, welcome := ts.seat("one", 2, 2)
	require.EqualValues(t, 1, welcome.Received)
	c.batches(2, 2)
	c.acked(2)
	require.Equal(t, records("a", 1, 2), w.durable())
	require.NoError(t, ts.Err())
}

// The two dialects share the seat of a stream.
func TestDialectsShareASeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), func(o *Options) { o.SeatWait = 2 * time.Second })
		old := ts.login()
		old.batches(1, 1)
		old.eventually(1, "ACK:1")
		begin := time.Now()
		ts.refused(hello2("i", 2, 2), "REJECTED")
		require.Equal(t, 2*time.Second, time.Since(begin))
		time.AfterFunc(time.Second, func() { old.conn.Close() })
		c, welcome := ts.seat("i", 2, 2) // it goes in time
		require.Equal(t, 3*time.Second, time.Since(begin))
		require.EqualValues(t, 1, welcome.Received)
		c.expect("ACK 1")
		c.batches(2, 2)
		c.acked(2)

		late := ts.dial()
		late.expect("__AUTH__:tok-A", "REJECTED")
		late.closed()
		require.Equal(t, 5*time.Second, time.Since(begin))
		c.conn.Close()
		old = ts.login()
		old.batches(3, 3)
		old.eventually(3, "ACK:3")
		old.conn.Close()
		synctest.Wait()
		ts.refused(hello2("i", 3, 3), "FORGOT") // dialect 1 went on with the numbers
	})
}

// One that asks and never says READY keeps others out for no longer than the time to authenticate.
func TestB22WelcomedAndSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := startPipe(t, newWorld(), func(o *Options) { o.AuthTimeout = 5 * time.Second })
		begin := time.Now()
		c := ts.dial2()
		<-time.After(time.Second)
		c.welcomed(hello2("i", 0, 0))
		for range 3 { // which it does not prolong
			<-time.After(time.Second)
			c.say("PING")
			c.expect("PONG")
		}
		c.ended()
		require.Equal(t, 5*time.Second, time.Since(begin))
		require.Equal(t, 1.0, ts.metric("tidemark_connections_refused_total", `reason="auth-timeout"`))
		require.False(t, ts.status("a").Connected)
		require.False(t, ts.status("a").Anchored)
	})
}

// A connection that was taken over is told so, counted, and logged.
func TestFencedIsLogged(t *testing.T) {
	logs := new(logged)
	ts := start(t, newWorld(), func(o *Options) { o.Log = logs.logger() })
	old, _ := ts.seat("i", 1, 1)
	ts.seat("i", 1, 1)
	old.over("FENCED")
	require.Contains(t, logs.String(), "FENCED")
	require.EqualValues(t, 1, ts.metric("tidemark_connections_refused_total", `reason="fenced"`))
}
