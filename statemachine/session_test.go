package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSessionForget: what a collector was told to forget, or its operator gave up, holds back no batch
// and no acknowledgement of the connection; what was refused above it still does.
func TestSessionForget(t *testing.T) {
	limits := DefaultLimits()
	s, c := New(&limits), new(Session)
	s.Anchor(1)
	require.Equal(t, Received, c.Receive(s, Batch{ID: 1, Records: 1}))
	for _, id := range []uint64{2, 3, 4, 6} {
		c.Refuse(id)
	}
	require.Equal(t, Retry, c.Receive(s, Batch{ID: 7, Records: 1}))

	s.Rebase(4)
	c.Forget(4)
	require.Equal(t, ranges{{4, 4}, {6, 7}}, c.refused, "from the middle of a range")
	require.Equal(t, Retry, c.Receive(s, Batch{ID: 5, Records: 1}), "4 has not come")
	require.Equal(t, Received, c.Receive(s, Batch{ID: 4, Records: 1}))
	require.Equal(t, Received, c.Receive(s, Batch{ID: 5, Records: 1}))
	c.Forget(4)
	c.Forget(1)
	require.Equal(t, ranges{{6, 7}}, c.refused, "nothing below")

	n := s.Queued()
	s.Emit(n)
	s.Settle(n)
	s.Snapshot(1)
	s.Complete(1)
	reply, watermark := c.Commit(s, 5)
	require.Equal(t, Ack, reply)
	require.EqualValues(t, 5, watermark)
	reply, _ = c.Commit(s, 6)
	require.Equal(t, Retry, reply)

	s.Rebase(8)
	c.Forget(8)
	require.Empty(t, c.refused)
	require.Equal(t, Received, c.Receive(s, Batch{ID: 8, Records: 1}))
}
