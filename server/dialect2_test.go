package server

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// What a conversation of dialect 2 looks like, and where a stream's numbers begin.

// anyBytes is a sink whose records may hold LF.
type anyBytes struct{ worldSink }

func (anyBytes) Traits() sink.Traits { return sink.Traits{ExactlyOnce: true} }

// The conversation that docs/en/protocol.md prints; two ACKs may come as one.
func TestConversation2(t *testing.T) {
	w := newWorld()
	w.gaps = true
	write := block()
	w.write = write.write
	ts := start(t, w, func(o *Options) { o.Sink, o.Name = anyBytes{worldSink{w}}, "tidemarkd" })
	before, _ := ts.seat("q8Zt5cJw", 57, 57)
	before.batches(57, 57)
	before.batches(59, 59)
	before.readyAt(56)

	c := ts.dial2()
	c.say(`HELLO {"version":2,"collector":"a","instance":"q8Zt5cJw","token":"tok-A","first":57,"next":61}`)
	require.Equal(t, `WELCOME {"epoch":0,"committed":56,"received":59,"missing":[[58,58]],"lost":[],"window_batches":1024,`+
		`"window_bytes":67108864,"max_batch_bytes":4194304,"idle_ms":60000,"server":"tidemarkd"}`, line(c.next()))
	before.over("FENCED")
	c.say("READY")
	c.say("BATCH 58 2 12\r\n\x05hello\x05world")
	c.say("BATCH 60 1 15\r\n\x0eany\x00 \r\n bytes.")
	write.open()
	c.acked(60)
	c.say("BATCH 61 3 4\r\n\x01a\x01b")
	nack := c.next()
	require.Equal(t, "NACK 61 DECODE_FAILED", line(nack))
	require.Contains(t, nack.Text, "2 records")
	c.say("SKIP 61")
	c.expect("ACK 61")
	ts.memory.Add(ts.options.TotalBytes) // of other streams
	c.say("BATCH 62 1 2\r\n\x01x")
	c.expect("RESEND 62 500")
	c.say("PING")
	c.expect("PONG")
	ts.memory.Add(-ts.options.TotalBytes)
	c.say("BATCH 62 1 2\r\n\x01x")
	c.say("BYE")
	c.expect("ACK 62", "BYE")
	c.ended()
	require.Equal(t, []string{"a/57", "a/59", "a/hello", "a/world", "a/any\x00 \r\n bytes.", "a/x"}, w.durable())
	ts.released()
}

// HELLO changes nothing, and with READY the first number and the instance are stored before anything else.
func TestAnchorByFirst(t *testing.T) {
	w := newWorld()
	w.gaps = true
	anchor := block()
	w.anchor = anchor.wait
	ts := start(t, w, nil)
	c := ts.dial2()
	welcome := c.welcomed(hello2("i", 57, 60))
	require.Equal(t, [2]uint64{56, 56}, [2]uint64{welcome.Committed, welcome.Received})
	require.False(t, ts.status("a").Anchored)
	require.Zero(t, w.called().anchor)

	c.write(protocol.AppendReady2(nil))
	c.batches(57, 57)
	<-anchor.entered
	require.EqualValues(t, 56, ts.status("a").Received, "the batch waits for the store")
	c.silent()
	require.Zero(t, w.called().write)
	anchor.open()
	c.acked(57)
	require.EqualValues(t, 57, w.image("a").Watermark)
	require.Equal(t, statemachine.SeatImage{Instance: "i"}, w.stored.Seats["a"])
	require.Equal(t, "i", ts.status("a").Instance)
	require.Equal(t, []string{"a/57"}, w.durable())
	require.Equal(t, 1, w.called().anchor)
}

func TestAnchorIsStoredBeforeTheFirstBatch(t *testing.T) {
	w := newWorld()
	w.save = block().wait
	ts := start(t, w, nil)
	c, _ := ts.seat("i", 0, 0)
	c.batches(1, 3)
	c.ready()
	ts.kill()
	require.True(t, w.image("a").Anchored)

	w.save = nil
	ts = start(t, w, nil)
	c, welcome := ts.seat("i", 1, 4)
	require.Empty(t, welcome.Lost)
	require.Zero(t, welcome.Received, "no checkpoint heard of them")
	c.batches(1, 3)
	c.acked(3)
	require.Equal(t, records("a", 1, 3), w.durable())
}

// What nobody holds any more is told in WELCOME, and reported aloud when READY gives it up.
func TestRebaseReportsWhatIsLost(t *testing.T) {
	w := newWorld()
	w.gaps = true
	logs := new(logged)
	ts := start(t, w, func(o *Options) { o.Log = logs.logger() })
	lost := func() float64 { return ts.metric("tidemark_lost_batches_total", `collector="a"`) }
	c, _ := ts.seat("i", 1, 1)
	c.batches(1, 2)
	c.batches(5, 5)
	c.acked(2)
	until(t, "all are here", func() bool { return ts.status("a").Received == 5 })
	c.conn.Close()

	c = ts.dial2()
	welcome := c.welcomed(hello2("i", 8, 8))
	require.Equal(t, []protocol.Range{{First: 3, Last: 4}, {First: 6, Last: 7}}, welcome.Lost)
	require.Empty(t, welcome.Missing)
	require.EqualValues(t, 7, welcome.Received)
	require.Zero(t, lost())
	require.NotContains(t, logs.String(), "nobody holds")
	c.write(protocol.AppendReady2(nil))
	c.batches(8, 8)
	c.acked(8)
	require.Equal(t, 4.0, lost())
	for _, want := range []string{"collector=a first=3 last=4", "collector=a first=6 last=7"} {
		require.Contains(t, logs.String(), want)
	}
	require.Equal(t, []string{"a/1", "a/2", "a/5", "a/8"}, w.durable())
}

// A collector whose disk is gone says 0 and goes on above what is here; what it owed is lost.
func TestNothingCountedYet(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	c, _ := ts.seat("old", 0, 0)
	c.batches(1, 1)
	c.batches(3, 3)
	c.acked(1)
	c.conn.Close()
	until(t, "the seat is free", func() bool { return !ts.status("a").Connected })
	c, welcome := ts.seat("new", 0, 0)
	require.EqualValues(t, 3, welcome.Received)
	require.Equal(t, []protocol.Range{{First: 2, Last: 2}}, welcome.Lost)
	c.batches(4, 4)
	c.acked(4)
	require.Equal(t, 1.0, ts.metric("tidemark_lost_batches_total", ""))
}

func TestMissingIsToldAndFilled(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	c, _ := ts.seat("i", 1, 1)
	c.batches(1, 1)
	c.batches(4, 4)
	c.batches(6, 6)
	c.acked(1)
	until(t, "all are here", func() bool { return ts.status("a").Received == 6 }) // 1 may be acknowledged before
	c.conn.Close()
	c, welcome := ts.seat("i", 2, 7)
	require.Equal(t, []protocol.Range{{First: 2, Last: 3}, {First: 5, Last: 5}}, welcome.Missing)
	require.EqualValues(t, 6, welcome.Received)
	c.expect("ACK 1")
	c.batches(2, 3)
	c.batches(5, 5)
	c.acked(6)
	require.ElementsMatch(t, records("a", 1, 6), w.durable())
	require.Zero(t, ts.metric("tidemark_lost_batches_total", ""))
}

func TestHelloRefused(t *testing.T) {
	ts := start(t, newWorld(), nil)
	c, _ := ts.seat("i", 0, 0)
	c.batches(1, 3)
	c.acked(3)
	for _, test := range []struct {
		change func(*protocol.Hello)
		reason string
	}{
		{func(h *protocol.Hello) { h.Token = "wrong" }, "AUTH_FAILED"},
		{func(h *protocol.Hello) { h.Token = "tok-B" }, "AUTH_FAILED"}, // of another collector
		{func(h *protocol.Hello) { h.Collector = "b" }, "AUTH_FAILED"},
		{func(h *protocol.Hello) { h.Instance = "other" }, "REJECTED"},
		{func(h *protocol.Hello) { h.First, h.Next = 1, 3 }, "FORGOT"},
		{func(h *protocol.Hello) { h.First, h.Next = 5000, 5000 }, "FIRST"},
	} {
		h := hello2("i", 4, 4)
		test.change(h)
		ts.refused(h, test.reason)
		label := strings.ReplaceAll(strings.ToLower(test.reason), "_", "-")
		require.NotZero(t, ts.metric("tidemark_connections_refused_total", `reason="`+label+`"`))
	}
	c.batches(4, 4) // none of it concerns the one that writes
	c.acked(4)
	require.Len(t, ts.Streams(), 1)
}

func TestOutOfTurn(t *testing.T) {
	ts := start(t, newWorld(), func(o *Options) { o.MaxLineBytes = 100 })
	hello := string(protocol.AppendHello2(nil, hello2("i", 0, 0)))
	large := "BATCH 1 1 101\r\n" + strings.Repeat("x", 101) + "\r\n"
	for name, text := range map[string]string{
		"READY twice":             hello + "READY\r\nREADY\r\n",
		"HELLO twice":             hello + hello,
		"HELLO after READY":       hello + "READY\r\n" + hello,
		"BATCH before READY":      hello + "BATCH 1 1 2\r\n\x01x\r\n",
		"large one before READY":  hello + large,
		"SKIP before READY":       hello + "SKIP 1\r\n",
		"BYE before READY":        hello + "BYE\r\n",
		"BATCH after BYE":         hello + "READY\r\nBATCH 2 1 2\r\n\x01x\r\nBYE\r\nBATCH 1 1 2\r\n\x01x\r\n",
		"large one after BYE":     hello + "READY\r\nBATCH 2 1 2\r\n\x01x\r\nBYE\r\n" + large,
		"SKIP without a NACK":     hello + "READY\r\nSKIP 1\r\n",
		"no such message":         hello + "READY\r\nCOMMIT 1\r\n",
		"no ending of a payload":  hello + "READY\r\nBATCH 1 1 2\r\n\x01xx\r\n",
		"dialect 1 in the middle": hello + "__BATCH__:1:x\r\n",
	} {
		w := newWorld()
		w.write = never
		ts := start(t, w, func(o *Options) { o.MaxLineBytes = 100 })
		c := ts.dial2()
		c.write([]byte(text))
		require.Equal(t, protocol.CodeWelcome, c.next().Code, name)
		c.over("BAD_REQUEST")
		require.Empty(t, w.durable(), name)
		ts.kill()
	}
	c := ts.dial2()
	c.write([]byte(strings.Replace(hello, `"version":2`, `"version":3`, 1)))
	c.over("VERSION")
	c = ts.dial2()
	c.say("HELLO {}")
	require.Equal(t, protocol.CodeError, c.next().Code)
	c.ended()
	require.Empty(t, ts.Streams())
}

func TestPingBeforeReady(t *testing.T) {
	ts := start(t, newWorld(), nil)
	c := ts.dial2()
	c.welcomed(hello2("i", 0, 0))
	c.say("PING")
	c.expect("PONG")
	c.say("PONG")
	c.say("READY")
	c.batches(1, 1)
	c.acked(1)
}

// However the bytes come, the dialect is told by the first of them; both share one port.
func TestBothDialectsOnOnePort(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	old := ts.loginAs("tok-B")
	c := ts.dial2()
	text := append(protocol.AppendReady2(protocol.AppendHello2(nil, hello2("i", 0, 0))), batch2(1, "x")...)
	for i := range text {
		c.write(text[i : i+1])
	}
	require.Equal(t, protocol.CodeWelcome, c.next().Code)
	old.batches(1, 1)
	c.acked(1)
	old.eventually(1, "ACK:1")
	for _, first := range []string{"H", "HELLO", "HELLO\n", "hello {}\n", "HELLOX\n"} {
		c := ts.dial()
		c.write(first)
		if !strings.HasSuffix(first, "\n") { // dialect 1, as its end shows
			c.write("\n")
		}
		require.Equal(t, "AUTH_FAILED", c.reply())
		c.closed()
	}
	require.ElementsMatch(t, []string{"a/x", "b/1"}, w.durable())
}

// The names that a HELLO may hold are as free as a store takes them.
func TestLongestNames(t *testing.T) {
	w := newWorld()
	ts := start(t, w, func(o *Options) { o.Name = strings.Repeat("n", protocol.MaxText) })
	instance := strings.Repeat("i", 64)
	c, welcome := ts.seat(instance, 0, 0)
	require.Len(t, welcome.Server, protocol.MaxText)
	c.batches(1, 1)
	c.acked(1)
	require.Equal(t, instance, w.stored.Seats["a"].Instance)
	for _, name := range []string{strings.Repeat("n", protocol.MaxText+1), "\xff"} {
		_, err := New(context.Background(), options(w, func(o *Options) { o.Name = name }))
		require.ErrorContains(t, err, "Name is")
	}
}

// WELCOME can say whatever the options allow.
func TestWelcomeOfExtremes(t *testing.T) {
	for _, change := range []func(*Options){
		func(o *Options) { o.MaxLineBytes, o.TotalBytes, o.IdleTimeout = 1<<31-1, 1<<40, 1<<62 },
		func(o *Options) { o.MaxLineBytes, o.TotalBytes, o.RetryAfter = 1, 1, 1<<62 },
		func(o *Options) {
			o.Limits = statemachine.Limits{QueueCapacity: 1, Ahead: 1, History: 1, MaxCheckpoints: 1, MaxNacks: 1}
		},
		limits(func(l *statemachine.Limits) { l.Ahead, l.QueueCapacity, l.History = 1<<62, 1<<62, 1<<62 }),
	} {
		ts := start(t, newWorld(), change)
		_, welcome := ts.seat("i", 0, 0)
		require.LessOrEqual(t, welcome.MaxBatchBytes, protocol.MaxCount)
		require.Positive(t, welcome.WindowBatches)
		require.GreaterOrEqual(t, welcome.WindowBytes, uint64(minWindow))
		ts.kill()
	}
}
