package statemachine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// seated is a stream that connection 1 of instance "a" writes, with batches 1 to n received.
func seated(n uint64) (*Seat, *Stream) {
	limits := DefaultLimits()
	t, s := new(Seat), New(&limits)
	t.Hello(s, 1, Hello{"a", 1, 1})
	t.Ready(s, 1)
	for id := uint64(1); id <= n; id++ {
		t.Receive(s, 1, batch(id))
	}
	return t, s
}

func batch(id uint64) Batch { return Batch{ID: id, Digest: id, Records: 1, Payload: []byte{byte(id)}} }

// covered completes checkpoint c over all that was received.
func covered(s *Stream, c uint64) {
	if n := s.Queued(); n > 0 {
		s.Emit(n)
		s.Settle(n)
	}
	s.Snapshot(c)
	s.Complete(c)
}

func TestHelloReply(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*Seat, *Stream)
		hello  Hello
		want   Reply
	}{
		{"same instance", nil, Hello{"a", 6, 6}, Welcomed},
		{"same instance, nothing counted yet", nil, Hello{"a", 0, 0}, Welcomed},
		{"another instance beside the owner", nil, Hello{"b", 0, 0}, Rejected},
		{"another instance after it", func(t *Seat, _ *Stream) { t.Leave(1) }, Hello{"b", 0, 0}, Welcomed},
		{"another instance beside one that only asks", func(t *Seat, s *Stream) { t.Hello(s, 2, Hello{"a", 6, 6}) }, Hello{"b", 0, 0}, Welcomed},
		{"superseded", func(t *Seat, s *Stream) { t.Leave(1); t.Hello(s, 2, Hello{"b", 0, 0}); t.Ready(s, 2) }, Hello{"a", 6, 6}, Retired},
		{"next is taken", nil, Hello{"a", 1, 5}, Forgot},
		{"next is the next", nil, Hello{"a", 1, 6}, Welcomed},
		{"first as far as can be", nil, Hello{"a", 6 + 4096, 6 + 4096}, Welcomed},
		{"first too far", nil, Hello{"a", 7 + 4096, 7 + 4096}, First},
		{"first far on a fresh stream", func(t *Seat, s *Stream) { t.Leave(1); *s = *New(s.limits) }, Hello{"a", 1 << 40, 1 << 40}, Welcomed},
		{"the highest first on a fresh stream", func(t *Seat, s *Stream) { *s = *New(s.limits) }, Hello{"a", MaxNumber, MaxNumber}, Welcomed},
		{"nothing to begin with", func(t *Seat, s *Stream) { *s = *New(s.limits) }, Hello{"a", MaxNumber + 1, MaxNumber + 1}, First},
		{"first above next", nil, Hello{"a", 8, 7}, First},
		{"next above all numbers", nil, Hello{"a", 6, MaxNumber + 2}, First},
		{"next without first", nil, Hello{"a", 0, 7}, First},
		{"first without next", nil, Hello{"a", 7, 0}, First},
	} {
		seat, s := seated(5)
		if c.before != nil {
			c.before(seat, s)
		}
		require.Equal(t, c.want, seat.HelloReply(s, c.hello), c.name)
		owner := seat.Owner()
		_, fenced, reply := seat.Hello(s, 9, c.hello)
		require.Equal(t, c.want, reply, c.name)
		if reply == Welcomed {
			require.Equal(t, owner, fenced, c.name)
			require.Zero(t, seat.Owner(), c.name)
			_, _, ok := seat.Ready(s, 9) // whatever is welcomed can be taken
			require.True(t, ok, c.name)
			require.NoError(t, s.Sound(), c.name)
		} else {
			require.Zero(t, fenced, c.name)
			require.Equal(t, owner, seat.Owner(), c.name)
		}
	}
}

// What WELCOME tells is what READY makes, and HELLO changes nothing of the stream.
func TestWelcomeForetellsReady(t *testing.T) {
	for _, c := range []struct {
		name  string
		fresh bool
		hello Hello
		want  Welcome
	}{
		{"a fresh stream begins at first", true, Hello{"b", 57, 61}, Welcome{Committed: 56, Received: 56}},
		{"or at 1", true, Hello{"b", 0, 0}, Welcome{}},
		{"nothing is lost", false, Hello{"a", 3, 10}, Welcome{Committed: 2, Received: 9, Missing: []Range{{3, 4}, {6, 8}}}},
		{"some of what is missing", false, Hello{"a", 7, 10}, Welcome{Committed: 2, Received: 9, Missing: []Range{{7, 8}}, Lost: []Range{{3, 4}, {6, 6}}}},
		{"and what never came", false, Hello{"a", 12, 12}, Welcome{Committed: 2, Received: 11, Lost: []Range{{3, 4}, {6, 8}, {10, 11}}}},
		{"all that is missing", false, Hello{"a", 0, 0}, Welcome{Committed: 2, Received: 9, Lost: []Range{{3, 4}, {6, 8}}}},
	} {
		seat, s := seated(2)
		covered(s, 1)
		seat.Receive(s, 1, batch(5))
		seat.Receive(s, 1, batch(9))
		if c.fresh {
			*seat, *s = Seat{}, *New(s.limits)
		}
		var before, after State
		s.State(&before)
		w, _, reply := seat.Hello(s, 2, c.hello)
		require.Equal(t, Welcomed, reply, c.name)
		require.Equal(t, fmt.Sprint(c.want.Lost, c.want.Missing), fmt.Sprint(w.Lost, w.Missing), c.name)
		require.Equal(t, [2]uint64{c.want.Committed, c.want.Received}, [2]uint64{w.Committed, w.Received}, c.name)
		s.State(&after)
		require.Equal(t, before, after, c.name)

		lost, stored, ok := seat.Ready(s, 2)
		require.True(t, ok, c.name)
		require.Equal(t, !c.fresh, stored, c.name)
		require.Equal(t, fmt.Sprint(w.Lost, w.Missing), fmt.Sprint(lost, s.Missing()), c.name)
		require.Equal(t, [2]uint64{w.Committed, w.Received}, [2]uint64{s.Committed(), s.Received()}, c.name)
	}
}

func TestReadyIsForTheLastHello(t *testing.T) {
	seat, s := seated(1)
	for _, conn := range []uint64{0, 1, 2} {
		_, _, ok := seat.Ready(s, conn)
		require.False(t, ok, "connection %d was not welcomed", conn)
	}
	require.EqualValues(t, 1, seat.Owner())
	seat.Hello(s, 2, Hello{"a", 1, 2})
	seat.Hello(s, 3, Hello{"a", 1, 2})
	_, _, ok := seat.Ready(s, 2)
	require.False(t, ok, "a newer one has come")
	_, stored, ok := seat.Ready(s, 3)
	require.True(t, ok)
	require.True(t, stored)
	require.EqualValues(t, 3, seat.Owner())
	_, _, ok = seat.Ready(s, 3)
	require.False(t, ok, "once is enough")
}

// From HELLO on nothing of the older connection counts: WELCOME has said what is missing.
func TestFencedConnectionChangesNothing(t *testing.T) {
	seat, s := seated(1)
	for _, step := range []func(){
		func() { seat.Hello(s, 2, Hello{"a", 1, 2}) },
		func() { seat.Ready(s, 2) },
		func() { seat.Receive(s, 2, batch(2)) },
	} {
		step()
		var before, after State
		s.State(&before)
		seatBefore := *seat
		_, ok := seat.Receive(s, 1, batch(3))
		require.False(t, ok)
		require.False(t, seat.Refuse(1, 3))
		require.False(t, seat.Nack(1, 3))
		require.False(t, seat.Skip(s, 1, 3))
		seat.Leave(1)
		s.State(&after)
		require.Equal(t, before, after)
		require.Equal(t, seatBefore, *seat)
	}
}

func TestGap(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(*Seat, *Stream)
		come   func(*Seat, *Stream)
	}{
		"refused by the host":    {func(t *Seat, _ *Stream) { demand(t.Refuse(1, 3)) }, func(t *Seat, s *Stream) { t.Receive(s, 1, batch(3)) }},
		"comes and is nacked":    {func(t *Seat, _ *Stream) { demand(t.Refuse(1, 3)) }, func(t *Seat, s *Stream) { demand(t.Nack(1, 3)) }},
		"comes as a skip":        {func(t *Seat, _ *Stream) { demand(t.Refuse(1, 3)) }, func(t *Seat, s *Stream) { demand(t.Skip(s, 1, 3)) }},
		"a newer connection":     {func(t *Seat, _ *Stream) { demand(t.Refuse(1, 3)) }, func(t *Seat, s *Stream) { t.Hello(s, 1, Hello{"a", 1, 3}); t.Ready(s, 1) }},
		"refused by the machine": {func(t *Seat, s *Stream) { halt(s); fullFor(t, s, 3) }, func(t *Seat, s *Stream) { s.Resume(); t.Receive(s, 1, batch(3)) }},
	} {
		seat, s := seated(2)
		c.refuse(seat, s)
		require.False(t, seat.Takes(1, 4), name)
		require.True(t, seat.Takes(1, 3), name)
		require.True(t, seat.Takes(1, 2), name)
		_, ok := seat.Receive(s, 1, batch(4))
		require.False(t, ok, name)
		require.EqualValues(t, 2, s.Received(), name)
		reply, ok := seat.Receive(s, 1, batch(2)) // below it all is as ever, and clears nothing
		require.True(t, ok, name)
		require.Equal(t, Received, reply, name)
		require.False(t, seat.Takes(1, 4), name)
		c.come(seat, s)
		require.True(t, seat.Takes(1, 4), name)
	}
}

// demand is require.True where there is no test at hand.
func demand(ok bool) {
	if !ok {
		panic("not taken")
	}
}

// halt uses up the tries of the sink.
func halt(s *Stream) {
	for !s.Halted() {
		s.Emit(s.Queued())
		s.Settle(0)
	}
}

func fullFor(t *Seat, s *Stream, id uint64) {
	if reply, ok := t.Receive(s, 1, batch(id)); !ok || reply != QueueFull {
		panic(fmt.Sprint(reply, ok))
	}
}

func TestSkip(t *testing.T) {
	seat, s := seated(2)
	require.False(t, seat.Skip(s, 1, 2), "it is here")
	require.False(t, seat.Skip(s, 1, 2+4097), "too far above")
	require.True(t, seat.Skip(s, 1, 5))
	require.Equal(t, []Range{{3, 4}}, s.Missing())
	require.True(t, seat.Skip(s, 1, 3), "it is missing")
	require.False(t, seat.Skip(s, 1, 3), "lost once")
	require.Equal(t, []Range{{4, 4}}, s.Missing())
	require.EqualValues(t, 5, s.Received())
	covered(s, 1)
	require.EqualValues(t, 3, s.Committed())
	reply, _ := seat.Receive(s, 1, batch(3))
	require.Equal(t, Stale, reply, "what was given up is not taken any more")
	require.True(t, seat.Skip(s, 1, 4))
	require.True(t, s.Dirty())
	covered(s, 2)
	require.EqualValues(t, 5, s.Committed())
	require.NoError(t, s.Sound())
}

func TestSkipSparse(t *testing.T) {
	limits := DefaultLimits()
	limits.Sparse = true
	s := New(&limits)
	require.False(t, s.CanSkip(7), "not anchored")
	require.PanicsWithValue(t, "statemachine: Skip(7) is not possible in this state", func() { s.Skip(7) })
	s.Anchor(1)
	s.Skip(7)
	require.Empty(t, s.Missing())
	require.EqualValues(t, 7, s.Received())
}

func TestPush(t *testing.T) {
	seat, s := seated(2)
	_, _, ok := seat.Push(s)
	require.False(t, ok)
	covered(s, 1)
	conn, watermark, ok := seat.Push(s)
	require.True(t, ok)
	require.Equal(t, [2]uint64{1, 2}, [2]uint64{conn, watermark})
	_, _, ok = seat.Push(s)
	require.False(t, ok, "told already")
	seat.Hello(s, 2, Hello{"a", 3, 3})
	_, _, ok = seat.Push(s)
	require.False(t, ok, "nobody writes")
	seat.Ready(s, 2)
	conn, watermark, ok = seat.Push(s)
	require.True(t, ok, "the new one is told again")
	require.Equal(t, [2]uint64{2, 2}, [2]uint64{conn, watermark})
}

func TestLeave(t *testing.T) {
	seat, s := seated(1)
	seat.Leave(0)
	seat.Leave(7)
	require.False(t, seat.Free())
	seat.Hello(s, 2, Hello{"a", 1, 2})
	seat.Leave(1) // the late end of the older one
	require.False(t, seat.Free())
	seat.Leave(2)
	require.True(t, seat.Free())
	_, _, ok := seat.Ready(s, 2)
	require.False(t, ok)
	seat.Hello(s, 3, Hello{"a", 1, 2})
	seat.Ready(s, 3)
	seat.Leave(3)
	require.True(t, seat.Free())
	require.Equal(t, "a", seat.Instance())
}

func TestRetiredAreRemembered(t *testing.T) {
	seat, s := seated(1)
	seat.Leave(1)
	for i := range MaxRetired + 3 {
		h := Hello{fmt.Sprint("i", i), 0, 0}
		_, _, reply := seat.Hello(s, uint64(i+2), h)
		require.Equal(t, Welcomed, reply)
		_, stored, ok := seat.Ready(s, uint64(i+2))
		require.True(t, ok)
		require.False(t, stored)
		seat.Leave(uint64(i + 2))
	}
	image := seat.Image()
	require.Equal(t, fmt.Sprint("i", MaxRetired+2), image.Instance)
	require.Len(t, image.Retired, MaxRetired)
	restored := RestoreSeat(image)
	image.Retired[0] = "changed" // the image is the store's own
	for _, seat := range []*Seat{seat, &restored} {
		require.True(t, seat.Free())
		require.Equal(t, Retired, seat.HelloReply(s, Hello{"i2", 2, 2}), "the oldest that is remembered")
		require.Equal(t, Retired, seat.HelloReply(s, Hello{fmt.Sprint("i", MaxRetired+1), 2, 2}))
		require.Equal(t, Welcomed, seat.HelloReply(s, Hello{"a", 2, 2}), "too long ago")
		require.Equal(t, Welcomed, seat.HelloReply(s, Hello{fmt.Sprint("i", MaxRetired+2), 2, 2}))
	}
}

func TestHelloReplyWords(t *testing.T) {
	require.Equal(t, "WELCOME REJECTED RETIRED FORGOT FIRST", fmt.Sprint(Welcomed, " ", Rejected, " ", Retired, " ", Forgot, " ", First))
}
