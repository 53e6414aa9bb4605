package statemachine

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The sets below are compared with the dumbest thing that does the same.

func TestRangesAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set ranges
		oracle := map[uint64]bool{}
		number := rapid.Uint64Range(1, 40)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				first := number.Draw(t, "first")
				last := first + rapid.Uint64Range(0, 5).Draw(t, "more")
				set.add(first, last)
				for id := first; id <= last; id++ {
					oracle[id] = true
				}
			},
			"addNothing": func(t *rapid.T) { first := number.Draw(t, "first"); set.add(first+1, first) },
			"remove": func(t *rapid.T) {
				id := number.Draw(t, "id")
				set.remove(id)
				delete(oracle, id)
			},
			"removeBelow": func(t *rapid.T) {
				first := number.Draw(t, "first")
				set.removeBelow(first)
				maps.DeleteFunc(oracle, func(id uint64, _ bool) bool { return id < first })
			},
			"": func(t *rapid.T) {
				require.True(t, set.canonical(1, 50), "%v", set)
				for id := uint64(0); id < 50; id++ {
					require.Equal(t, oracle[id], set.contains(id), "%d in %v", id, set)
				}
			},
		})
	})
}

func TestDigestsAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d digests
		oracle := map[uint64]uint64{}
		number := rapid.Uint64Range(1, 40)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				id, sum := number.Draw(t, "id"), rapid.Uint64Range(0, 3).Draw(t, "sum")
				old, known := oracle[id]
				require.Equal(t, !known || old != sum, d.set(id, sum))
				oracle[id] = sum
			},
			"next": func(t *rapid.T) {
				next := uint64(1)
				for id := range oracle {
					next = max(next, id+1)
				}
				d.set(next, next)
				oracle[next] = next
			},
			"forget": func(t *rapid.T) {
				high := number.Draw(t, "high")
				d.forget(high)
				maps.DeleteFunc(oracle, func(id, _ uint64) bool { return id <= high })
			},
			"": func(t *rapid.T) { sameDigests(t, oracle, &d) },
		})
	})
}

func sameDigests(t *rapid.T, oracle map[uint64]uint64, d *digests) {
	require.Equal(t, len(oracle), d.len())
	want := []Digest{}
	for _, id := range slices.Sorted(maps.Keys(oracle)) {
		want = append(want, Digest{id, oracle[id]})
	}
	require.Equal(t, want, d.appendTo([]Digest{}, 0))
	for id := uint64(0); id < 45; id++ {
		sum, known := d.get(id)
		wantSum, wantKnown := oracle[id]
		require.Equal(t, wantKnown, known, "%d", id)
		require.Equal(t, wantSum, sum, "%d", id)
		above := 0
		for other := range oracle {
			if other > id {
				above++
			}
		}
		require.Equal(t, above, d.above(id), "above %d", id)
	}
	for i := 1; i < d.spans.len(); i++ {
		require.Greater(t, d.spans.live()[i].first, d.spans.live()[i-1].last+1, "spans join")
	}
}

func TestFifoReusesItsRoom(t *testing.T) {
	var f fifo[*int]
	one := 1
	for range 100 {
		f.push(&one)
	}
	room := cap(f.buf)
	for range 10_000 {
		f.drop(1)
		f.push(&one)
	}
	require.Equal(t, 100, f.len())
	require.LessOrEqual(t, cap(f.buf), 2*room)
	for _, p := range f.buf[:f.head] {
		require.Nil(t, p, "what was dropped is still held")
	}
	f.drop(100)
	require.Zero(t, f.len())
}

// TestTrim: a stream that has rested does the same as one that has not, in less memory.
func TestTrim(t *testing.T) {
	limits := DefaultLimits()
	s := New(&limits)
	s.Anchor(1)
	for id := uint64(1); id <= 1000; id++ {
		require.Equal(t, Received, s.Receive(Batch{ID: id, Digest: id, Records: 1}))
	}
	s.Emit(1000)
	s.Settle(998)
	s.Snapshot(1)
	s.Complete(1)
	var before, after State
	s.State(&before)
	s.Trim()
	s.State(&after)
	require.Equal(t, before, after)
	require.LessOrEqual(t, cap(s.held.buf), 4)
	require.LessOrEqual(t, cap(s.digests.sums.buf), 2*1000)
	require.Equal(t, Received, s.Receive(Batch{ID: 1001, Digest: 1, Records: 1}))
	s.Emit(3)
	s.Trim()
	require.Len(t, s.emitted, 3, "what is lent out stays")
	s.Settle(3)
	s.Snapshot(2)
	s.Complete(2)
	require.Equal(t, uint64(1001), s.Committed())
	require.NoError(t, s.Sound())
}
