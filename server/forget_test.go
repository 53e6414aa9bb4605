package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// Collectors whose numbers do not begin at 1.

func TestNumbersThatBeginElsewhere(t *testing.T) {
	const first = 1_000_000
	w := newWorld()
	w.gaps = true
	logs := new(logged)
	ts := start(t, w, func(o *Options) { o.Log = logs.logger() })
	c := ts.login()
	c.expect(fmt.Sprintf("__BATCH__:%d:x", first), "QUEUE_FULL:500")
	c.expect(fmt.Sprintf("__BATCH__:%d:x", first+1), "RETRY")
	c.expect(fmt.Sprintf("__COMMIT__:%d", first), "RETRY")
	require.Contains(t, logs.String(), fmt.Sprintf("tidemark forget a --below %d", first))
	require.Contains(t, logs.String(), "first=1 last=999999")
	require.Zero(t, ts.status("a").Received)

	ts.asks("POST", fmt.Sprintf("/streams/a/forget?below=%d", first), 200, fmt.Sprintf("[[1,%d]]", first-1))
	require.Contains(t, logs.String(), "given up by an operator")
	require.Equal(t, float64(first-1), ts.metric("tidemark_lost_batches_total", ""))
	c.expect(fmt.Sprintf("__BATCH__:%d:x", first), "RECEIVED")
	c.expect(fmt.Sprintf("__BATCH__:%d:y", first+1), "RECEIVED")
	c.eventually(first+1, fmt.Sprintf("ACK:%d", first+1))
	require.Equal(t, []string{"a/x", "a/y"}, w.durable())
}

// A batch that only waits for a lower one, which was refused for now, is no skipped number: nobody is
// told to give anything up.
func TestRefusedIsNotSkipped(t *testing.T) {
	w := newWorld()
	w.write = never
	logs := new(logged)
	ts := start(t, w, func(o *Options) {
		limits(func(l *statemachine.Limits) { l.QueueCapacity = 1 })(o)
		o.Log = logs.logger()
	})
	c := ts.login()
	c.batches(1, 1)
	c.expect("__BATCH__:2:2", "QUEUE_FULL:500")
	c.expect("__BATCH__:3:3", "RETRY")
	require.NotContains(t, logs.String(), "forget")
	w.set(func() { w.write = nil })
	c.insist("__BATCH__:2:2")
	c.insist("__BATCH__:3:3")
	require.NotContains(t, logs.String(), "forget")
}

func TestFirstOption(t *testing.T) {
	const first = 1_000_000
	w := newWorld()
	w.gaps = true
	change := func(o *Options) { o.First = map[string]uint64{"a": first} }
	ts := start(t, w, change)
	c, b := ts.login(), ts.loginAs("tok-B")
	c.expect(fmt.Sprintf("__BATCH__:%d:x", first), "RECEIVED")
	c.eventually(first, fmt.Sprintf("ACK:%d", first))
	b.batches(1, 1) // the others begin at 1
	b.eventually(1, "ACK:1")
	require.EqualValues(t, first, ts.status("a").Committed)
	ts.kill()

	// Once a stream has begun, the option says nothing any more.
	ts = start(t, w, func(o *Options) { o.First = map[string]uint64{"a": 2 * first} })
	c = ts.login()
	c.expect(fmt.Sprintf("__BATCH__:%d:y", first+1), "RECEIVED")
	c.eventually(first+1, fmt.Sprintf("ACK:%d", first+1))
}

// The anchor is stored before the first RECEIVED: a crash right after it does not take the next batch
// for the first.
func TestAnchorIsStoredFirst(t *testing.T) {
	w := newWorld()
	w.gaps = true
	w.write = never
	save := block()
	w.save = save.wait
	ts := start(t, w, nil)
	ts.login().batches(1, 1)
	require.True(t, w.image("a").Anchored)
	ts.kill()
	w.write, w.save = nil, nil
	ts = start(t, w, nil)
	c := ts.login()
	c.expect("__BATCH__:2:2", "RECEIVED")
	c.expect("__COMMIT__:1", "RESEND")
	until(t, "2 is delivered", func() bool { return len(w.durable()) == 1 })
	require.Zero(t, ts.status("a").Committed)
	require.Equal(t, "collector owes 1", ts.status("a").Waiting)
}

func TestDeafCollectorIsWarnedOf(t *testing.T) {
	logs := new(logged)
	ts := start(t, newWorld(), func(o *Options) {
		limits(func(l *statemachine.Limits) { l.QueueCapacity = 2 * deafAfter })(o)
		o.Log = logs.logger()
	})
	c := ts.login()
	c.batches(1, deafAfter-1)
	require.NotContains(t, logs.String(), "never asks COMMIT")
	c.batches(deafAfter, deafAfter+10)
	require.Equal(t, 1, strings.Count(logs.String(), "never asks COMMIT"))
}

// What the operator gives up holds nothing back any more on a connection that was refused it.
func TestForgetOnALiveConnection(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, func(o *Options) { o.MaxLineBytes = 100 })
	c := ts.login()
	c.batches(1, 1)
	c.expect("__BATCH__:2:"+strings.Repeat("x", 100), "TOO_LARGE")
	c.expect("__BATCH__:3:3", "RETRY")
	lost, err := ts.Forget(t.Context(), "a", 3)
	require.NoError(t, err)
	require.Equal(t, []statemachine.Range{{First: 2, Last: 2}}, lost)
	c.batches(3, 3)
	c.eventually(3, "ACK:3")
	require.Equal(t, []string{"a/1", "a/3"}, w.durable())
}

// In dialect 2 a collector that is connected hears by a new WELCOME what was given up: an ACK of numbers that it never
// sent would make no sense to it.
func TestForgetOnALiveSeat(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	c, _ := ts.seat("i", 1, 1)
	c.batches(1, 2)
	c.acked(2)
	lost, err := ts.Forget(t.Context(), "a", 10)
	require.NoError(t, err)
	require.Equal(t, []statemachine.Range{{First: 3, Last: 9}}, lost)
	c.expect("GOAWAY 500")
	c.ended()
	_, welcome := ts.seat("i", 10, 10)
	require.EqualValues(t, 9, welcome.Received)
}
