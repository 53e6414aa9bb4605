package checkpointlog

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// Reading a log takes memory as it has payloads, not as it has frames: they do not keep what they were read with.
func TestReadManyFramesWithPayloads(t *testing.T) {
	const frames = 500
	dir := t.TempDir()
	l, err := Open(dir, Options{floor: 1 << 30})
	require.NoError(t, err)
	_, err = l.Load(context.Background())
	require.NoError(t, err)
	for i := range frames {
		img := statemachine.Image{Anchored: true, Received: 1, Queue: []statemachine.Batch{{ID: 1, Records: 1, Payload: []byte("payload")}}}
		change := store.Change{Collector: fmt.Sprint(i), Delta: img.AppendWhole(nil)}
		require.NoError(t, l.Save(context.Background(), &store.Checkpoint{Number: uint64(i + 1), Changes: []store.Change{change}}))
	}
	require.NoError(t, l.Close())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	st, _, err := Read(l.path)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Len(t, st.Images, frames)
	require.Equal(t, "payload", string(st.Images["7"].Queue[0].Payload))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}
