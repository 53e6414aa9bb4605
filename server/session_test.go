package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// The rules of a connection, over the wire.

func TestRetryAboveARefusedOne(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, func(o *Options) { o.MaxLineBytes = 100 })
	c := ts.login()
	c.batches(1, 2)
	c.expect("__BATCH__:3:"+strings.Repeat("x", 100), "TOO_LARGE")
	c.expect("__BATCH__:4:4", "RETRY")
	c.expect("__BATCH__:9:9", "RETRY")
	c.expect("__BATCH__:2:2", "RECEIVED") // below it all is as ever
	c.eventually(2, "ACK:2")
	c.expect("__COMMIT__:4", "RETRY")
	require.EqualValues(t, 2, ts.status("a").Received)
	c.batches(3, 3)
	c.expect("__BATCH__:9:9", "RETRY") // 4 has not come again
	c.batches(4, 4)
	c.expect("__BATCH__:9:9", "RECEIVED")
	c.conn.Close()

	c = ts.login() // another connection owes nothing
	c.expect("__BATCH__:10:10", "RECEIVED")
}

func TestAckNeedsAProof(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 5)
	c.eventually(5, "ACK:5")
	c.conn.Close()
	c = ts.login()
	for id := 1; id <= 5; id++ {
		c.expect(fmt.Sprintf("__COMMIT__:%d", id), "RESEND")
	}
	c.expect("__COMMIT__:6", "RETRY")
	c.batches(3, 3)
	c.expect("__COMMIT__:1", "ACK:3") // no more than it has shown
	c.expect("__COMMIT__:3", "ACK:3")
	c.expect("__COMMIT__:4", "RESEND")
	c.batches(5, 5)
	c.expect("__COMMIT__:1", "ACK:5")
	require.Equal(t, records("a", 1, 5), w.durable())
}

func TestAckIsCappedByARefusal(t *testing.T) {
	ts := start(t, newWorld(), nil)
	c := ts.login()
	c.batches(1, 5)
	c.eventually(5, "ACK:5")
	c.conn.Close()
	c = ts.login()
	c.expect("__BATCH__:4:other", "CONFLICT")
	c.expect("__BATCH__:5:5", "RETRY")
	c.batches(2, 2)
	c.expect("__COMMIT__:2", "ACK:2")
	c.batches(4, 5)
	c.expect("__COMMIT__:2", "ACK:5")
	// It was told to forget 4, so that a refusal of it holds nothing back any more.
	c.expect("__BATCH__:4:other", "CONFLICT")
	c.batches(6, 6)
	c.eventually(6, "ACK:6")
}

func TestStaleAndConflict(t *testing.T) {
	const history = 5
	w := newWorld()
	ts := start(t, w, limits(func(l *statemachine.Limits) { l.History, l.Ahead = history, history }))
	c := ts.login()
	for id := 1; id <= 12; id++ {
		c.batches(id, id)
		c.eventually(id, fmt.Sprint("ACK:", id))
	}
	c.expect("__BATCH__:7:7", "STALE") // too old to compare, and told to forget long ago
	c.expect("__BATCH__:8:8", "RECEIVED")
	c.expect("__BATCH__:8:other", "CONFLICT")
	c.batches(13, 13) // none of it holds up the connection
	c.eventually(13, "ACK:13")
	c.conn.Close()

	c = ts.login() // which on a connection that was told nothing yet it does
	c.expect("__BATCH__:7:7", "STALE")
	c.expect("__BATCH__:14:14", "RETRY")
	c.expect("__COMMIT__:7", "RETRY")
	require.Equal(t, records("a", 1, 13), w.durable())
}

func TestTooFarAhead(t *testing.T) {
	const ahead = 10
	w := newWorld()
	w.gaps = true
	ts := start(t, w, limits(func(l *statemachine.Limits) { l.History, l.Ahead = ahead, ahead }))
	c := ts.login()
	c.batches(1, 1)
	c.eventually(1, "ACK:1")
	c.expect("__BATCH__:11:11", "RECEIVED")
	c.expect("__BATCH__:12:12", "QUEUE_FULL:500")
	c.expect("__COMMIT__:12", "RETRY")
	c.batches(2, 10)
	c.insist("__BATCH__:12:12")
	c.eventually(12, "ACK:12")
}

// A connection that collects refusals without end is closed.
func TestRefusedSetIsBounded(t *testing.T) {
	ts := start(t, newWorld(), nil)
	c := ts.login()
	for i := range statemachine.MaxRefused - 1 {
		c.send(fmt.Sprintf("__BATCH__:%d:x", 100_000+2*i)) // far ahead, never adjacent
		require.Contains(t, []string{"QUEUE_FULL:500", "RETRY"}, c.reply())
	}
	c.expect("__COMMIT__:1", "RETRY")
	c.send("__BATCH__:900000:x")
	require.Equal(t, "RETRY", c.reply())
	c.closed()
	require.Equal(t, 1.0, ts.metric("tidemark_connections_refused_total", `reason="refused-set"`))
	ts.login().batches(1, 1)
}

func TestSparseNumbers(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, limits(func(l *statemachine.Limits) { l.Sparse = true }))
	c := ts.login()
	for _, id := range []int{10, 20, 35} {
		c.expect(fmt.Sprintf("__BATCH__:%d:%d", id, id), "RECEIVED")
		c.eventually(id, fmt.Sprint("ACK:", id))
	}
	c.expect("__COMMIT__:15", "ACK:35")
	c.expect("__COMMIT__:36", "RETRY")
	c.expect("__BATCH__:10:10", "RECEIVED")
	c.expect("__BATCH__:15:15", "STALE") // below, and never sent
	require.Empty(t, ts.status("a").Missing)
	require.Equal(t, []string{"a/10", "a/20", "a/35"}, w.durable())
}
