package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimitsCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Limits)
		want   string
	}{
		{"defaults", func(*Limits) {}, ""},
		{"the least of each", func(l *Limits) { *l = Limits{QueueCapacity: 1, Ahead: 1, History: 1, MaxCheckpoints: 1, MaxNacks: 1} }, ""},
		{"history of ahead", func(l *Limits) { l.Ahead, l.History = 7, 7 }, ""},
		{"history below ahead", func(l *Limits) { l.Ahead, l.History = 8, 7 }, "history is 7, allowed is at least ahead, which is 8"},
		{"no queue", func(l *Limits) { l.QueueCapacity = 0 }, "queue capacity is 0, allowed is at least 1"},
		{"negative bytes", func(l *Limits) { l.QueueBytes = -1 }, "queue bytes is -1, allowed is at least 0"},
		{"no checkpoint", func(l *Limits) { l.MaxCheckpoints = 0 }, "max checkpoints is 0, allowed is at least 1"},
		{"no nack", func(l *Limits) { l.MaxNacks = 0 }, "max nacks is 0, allowed is at least 1"},
		{"negative history", func(l *Limits) { l.History = -1 }, "history is -1, allowed is at least 0"},
		{"nothing ahead", func(l *Limits) { l.Ahead = 0 }, "ahead is 0, allowed is at least 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits := DefaultLimits()
			c.change(&limits)
			if c.want == "" {
				require.NoError(t, limits.Check())
				return
			}
			require.EqualError(t, limits.Check(), c.want)
			if limits.assume() != nil {
				require.PanicsWithValue(t, "statemachine: "+c.want, func() { New(&limits) })
			}
		})
	}
}

// TestGuards: each action that is not possible panics, names itself, and leaves the stream as it was.
func TestGuards(t *testing.T) {
	fresh := func(s *Stream) {}
	anchored := func(s *Stream) { s.Anchor(1) }
	queued := func(s *Stream) { s.Anchor(1); s.Receive(Batch{ID: 1, Records: 1}); s.Receive(Batch{ID: 2, Records: 1}) }
	inflight := func(s *Stream) { queued(s); s.Emit(1) }
	for _, c := range []struct {
		want   string
		before func(*Stream)
		action func(*Stream)
	}{
		{"Anchor(0)", fresh, func(s *Stream) { s.Anchor(0) }},
		{"Anchor(9223372036854775808)", fresh, func(s *Stream) { s.Anchor(MaxNumber + 1) }},
		{"Anchor(1)", anchored, func(s *Stream) { s.Anchor(1) }},
		{"Rebase(1)", fresh, func(s *Stream) { s.Rebase(1) }},
		{"Rebase(0)", anchored, func(s *Stream) { s.Rebase(0) }},
		{"Rebase(9223372036854775809)", anchored, func(s *Stream) { s.Rebase(MaxNumber + 2) }},
		{"Receive(7)", anchored, func(s *Stream) { s.Receive(Batch{ID: 7}) }},
		{"Receive(1)", fresh, func(s *Stream) { s.Receive(Batch{ID: 1, Records: 1}) }},
		{"Skip(1)", fresh, func(s *Stream) { s.Skip(1) }},
		{"Skip(2)", queued, func(s *Stream) { s.Skip(2) }},
		{"Emit(1)", anchored, func(s *Stream) { s.Emit(1) }},
		{"Emit(0)", queued, func(s *Stream) { s.Emit(0) }},
		{"Emit(3)", queued, func(s *Stream) { s.Emit(3) }},
		{"Emit(1)", inflight, func(s *Stream) { s.Emit(1) }},
		{"Settle(0)", queued, func(s *Stream) { s.Settle(0) }},
		{"Settle(2)", inflight, func(s *Stream) { s.Settle(2) }},
		{"Rollback(0)", queued, func(s *Stream) { s.Rollback(0) }},
		{"Rollback(1)", inflight, func(s *Stream) { s.Rollback(1) }},
		{"Resume(0)", anchored, func(s *Stream) { s.Resume() }},
		{"Snapshot(1)", fresh, func(s *Stream) { s.Snapshot(1) }},
		{"Snapshot(0)", anchored, func(s *Stream) { s.Snapshot(0) }},
	} {
		limits := DefaultLimits()
		s := New(&limits)
		c.before(s)
		var before, after State
		s.State(&before)
		require.PanicsWithValue(t, "statemachine: "+c.want+" is not possible in this state", func() { c.action(s) })
		s.State(&after)
		require.Equal(t, before, after, c.want)
	}
}

// TestSoundNamesWhatDoesNotHold: a check that can't fail would prove nothing.
func TestSoundNamesWhatDoesNotHold(t *testing.T) {
	limits := Limits{QueueCapacity: 2, Ahead: 1, History: 1, MaxCheckpoints: 1, MaxNacks: 1}
	batch := func(id uint64) Batch { return Batch{ID: id} }
	for _, c := range []struct {
		want  string
		state State
	}{
		{"do not rise", State{Anchored: true, Committed: 2, Received: 1}},
		{"is not a set", State{Anchored: true, Received: 2, Missing: []Range{{2, 1}}}},
		{"is not a set", State{Anchored: true, Received: 2, Missing: []Range{{1, 1}, {2, 2}}}},
		{"is not a set", State{Anchored: true, Received: 2, Missing: []Range{{1, 3}}}},
		{"before the anchor", State{Received: 1}},
		{"froze 1 above the watermark 0", State{Anchored: true, Last: 1, Checkpoints: []Mark{{1, 1, 0}}}},
		{"covers 1 of 0 settled", State{Anchored: true, Last: 1, Checkpoints: []Mark{{1, 0, 1}}}},
		{"checkpoint 2 after 0, highest is 1", State{Anchored: true, Last: 1, Checkpoints: []Mark{{2, 0, 0}}}},
		{"held outside of", State{Anchored: true, Committed: 1, Received: 1, Settled: []Batch{batch(1)}}},
		{"unfinished twice", State{Anchored: true, Received: 1, Queue: []Batch{batch(1), batch(1)}}},
		{"unfinished twice", State{Anchored: true, Received: 1, Queue: []Batch{batch(1)}, Missing: []Range{{1, 1}}}},
		{"3 batches held", State{Anchored: true, Received: 3, Queue: []Batch{batch(1), batch(2), batch(3)}}},
		{"3 digests remembered", State{Anchored: true, Received: 3, Digests: []Digest{{1, 0}, {2, 0}, {3, 0}}}},
		{"2 checkpoints open", State{Anchored: true, Last: 2, Checkpoints: []Mark{{1, 0, 0}, {2, 0, 0}}}},
	} {
		_, err := Load(&limits, &c.state)
		require.ErrorContains(t, err, c.want)
	}
}

// TestSessionFull: what one connection may owe is bounded; numbers in a row are one range.
func TestSessionFull(t *testing.T) {
	var c Session
	for id := uint64(1); id <= 10*MaxRefused; id++ {
		c.Refuse(id)
	}
	require.False(t, c.Full())
	c = Session{}
	for id := uint64(2); id < 2*MaxRefused; id += 2 {
		c.Refuse(id)
	}
	require.Len(t, c.refused, MaxRefused-1)
	require.False(t, c.Full())
	c.Refuse(2 * MaxRefused)
	require.True(t, c.Full())
}
