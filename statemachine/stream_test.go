package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShownState: what people and hosts are shown is the state.
func TestShownState(t *testing.T) {
	limits := DefaultLimits()
	limits.MaxNacks = 2
	s, err := Restore(&limits, &Image{Epoch: 3, Anchored: true, Watermark: 1, Received: 2, Missing: []Range{{2, 2}}, Digests: []Digest{{1, 1}, {2, 2}}})
	require.NoError(t, err)
	require.Equal(t, Received, s.Receive(Batch{ID: 2, Digest: 2, Records: 1}))
	for nacks := 1; nacks <= 2; nacks++ {
		s.Emit(1)
		s.Settle(0)
		require.Equal(t, nacks, s.Nacks())
		require.Equal(t, nacks == 2, s.Halted())
	}
	require.EqualValues(t, 4, s.Epoch())
	require.True(t, s.Anchored())
	require.EqualValues(t, 2, s.Received())
}

// TestAppendWhole: a whole delta makes any image into this one.
func TestAppendWhole(t *testing.T) {
	for _, img := range []Image{
		{},
		{Epoch: 1, Anchored: true, Watermark: 3, Received: 9, Missing: []Range{{4, 5}, {8, 8}}, Digests: []Digest{{3, 1}, {6, 2}, {7, 3}, {9, 4}},
			Queue: []Batch{{ID: 6, Digest: 2, Records: 1, Payload: []byte("a")}, {ID: 9, Digest: 4, Records: 2, Payload: []byte{}}, {ID: 7, Digest: 3, Records: 1, Payload: []byte("b")}}},
	} {
		got := Image{Epoch: 9, Received: 7, Missing: []Range{{1, 7}}, Digests: []Digest{{5, 5}}}
		require.NoError(t, got.Apply(img.AppendWhole(nil)))
		require.Equal(t, plainImage(img), plainImage(got))
	}
}
