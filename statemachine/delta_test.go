package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// richDelta is a whole delta with every kind of field in it.
func richDelta(t *testing.T) (*Limits, []byte) {
	limits := Limits{QueueCapacity: 9, Ahead: 20, History: 20, MaxCheckpoints: 1, MaxNacks: 1, KeepPayloads: true}
	s := New(&limits)
	s.Anchor(1)
	for _, id := range []uint64{1, 2, 5, 9, 4, 15} {
		s.Receive(Batch{ID: id, Digest: id << 40, Records: int(id), Payload: make([]byte, id)})
	}
	s.Emit(1)
	s.Settle(1)
	require.NotEmpty(t, s.Missing())
	return &limits, s.AppendDelta(nil)
}

func TestDeltaCutAnywhere(t *testing.T) {
	_, delta := richDelta(t)
	require.NoError(t, new(Image).Apply(delta))
	for n := range delta {
		require.ErrorIs(t, new(Image).Apply(delta[:n]), ErrDelta, "cut at %d of %d", n, len(delta))
	}
	require.ErrorIs(t, new(Image).Apply(append(delta, 0)), ErrDelta)
}

// TestDeltaWithAnyByteChanged: an error, or an image that is refused or makes a sound stream; the
// image is never out of proportion to the bytes.
func TestDeltaWithAnyByteChanged(t *testing.T) {
	limits, delta := richDelta(t)
	refused, restored := 0, 0
	for i, old := range delta {
		for v := range 256 {
			delta[i] = byte(v)
			var img Image
			err := img.Apply(delta)
			require.LessOrEqual(t, len(img.Digests)+len(img.Missing)+len(img.Queue), len(delta))
			if err != nil {
				require.ErrorIs(t, err, ErrDelta)
				refused++
				continue
			}
			s, err := Restore(limits, &img)
			if err != nil {
				refused++
				continue
			}
			require.NoError(t, s.Sound(), "byte %d is %d", i, v)
			restored++
		}
		delta[i] = old
	}
	require.Positive(t, refused)
	require.Positive(t, restored)
}

func TestApplyRefusesUnknownFlags(t *testing.T) {
	require.ErrorIs(t, new(Image).Apply([]byte{1, 4, 0, 0, 0, 0, 0, 0, 0, 0}), ErrDelta)
	require.NoError(t, new(Image).Apply([]byte{1, 3, 0, 0, 0, 0, 0, 0, 0, 0}))
}

func TestNumbersAboveTheHighest(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		limits := DefaultLimits()
		limits.Sparse = sparse
		s := New(&limits)
		s.Anchor(MaxNumber)
		require.Equal(t, Stale, s.Receive(Batch{ID: MaxNumber + 1, Records: 1}))
		require.Equal(t, Received, s.Receive(Batch{ID: MaxNumber, Records: 1}))
		require.Equal(t, Stale, s.Receive(Batch{ID: 1<<64 - 1, Records: 1}))
		var img Image
		s.Image(&img)
		_, err := Restore(&limits, &img)
		require.NoError(t, err)
	}
}

func TestDeltaAfterLoadIsWhole(t *testing.T) {
	limits := DefaultLimits()
	s, err := Load(&limits, &State{
		Anchored: true, Received: 1, Settled: []Batch{{ID: 1, Records: 1}}, Digests: []Digest{{1, 0}},
		Checkpoints: []Mark{{1, 1, 1}}, Last: 1,
	})
	require.NoError(t, err)
	s.Complete(1)
	var want, got Image
	s.Image(&want)
	require.NoError(t, got.Apply(s.AppendDelta(nil)))
	require.True(t, equalImages(want, got))
}

func TestRestoreRefuses(t *testing.T) {
	limits := DefaultLimits()
	for _, c := range []struct {
		want string
		img  Image
	}{
		{"watermark 2, received 1", Image{Anchored: true, Watermark: 2, Received: 1}},
		{"received 9223372036854775808", Image{Anchored: true, Received: MaxNumber + 1}},
		{"missing [{3 2}]", Image{Anchored: true, Received: 3, Missing: []Range{{3, 2}}}},
		{"missing [{1 1} {2 2}]", Image{Anchored: true, Received: 3, Missing: []Range{{1, 1}, {2, 2}}}},
		{"missing [{2 2} {1 1}]", Image{Anchored: true, Received: 3, Missing: []Range{{2, 2}, {1, 1}}}},
		{"missing [{1 4}]", Image{Anchored: true, Received: 3, Missing: []Range{{1, 4}}}},
		{"missing [{1 1}]", Image{Anchored: true, Watermark: 1, Received: 3, Missing: []Range{{1, 1}}}},
		{"batch 1 in the queue", Image{Anchored: true, Watermark: 1, Received: 2, Queue: []Batch{{ID: 1}}}},
		{"batch 3 in the queue", Image{Anchored: true, Received: 2, Queue: []Batch{{ID: 3}}}},
		{"batch 1 in the queue", Image{Anchored: true, Received: 1, Queue: []Batch{{ID: 1, Records: 1}, {ID: 1, Records: 1}}}},
		{"batch 2 in the queue", Image{Anchored: true, Received: 2, Queue: []Batch{{ID: 2}}, Missing: []Range{{1, 2}}}},
		{"batch 1 has 0 records", Image{Anchored: true, Received: 1, Queue: []Batch{{ID: 1}}}},
		{"lowest unfinished number, 3", Image{Anchored: true, Watermark: 1, Received: 3, Missing: []Range{{3, 3}}}},
		{"lowest unfinished number, 4", Image{Anchored: true, Watermark: 1, Received: 3}},
		{"digest of 0", Image{Anchored: true, Digests: []Digest{{0, 1}}}},
		{"digest of 2", Image{Anchored: true, Watermark: 1, Received: 1, Digests: []Digest{{2, 1}}}},
		{"digest of 1", Image{Anchored: true, Watermark: 2, Received: 2, Digests: []Digest{{2, 1}, {1, 1}}}},
		{"before the first number is known", Image{Watermark: 1, Received: 1}},
	} {
		s, err := Restore(&limits, &c.img)
		require.ErrorContains(t, err, c.want)
		require.Nil(t, s)
	}
}
