package checkpointlog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// BenchmarkRestart loads a log of 10,000 streams, as whole images of which every tenth changed since.
func BenchmarkRestart(b *testing.B) {
	for _, history := range []int{64, 4096} {
		b.Run(fmt.Sprintf("streams=10000/history=%d", history), func(b *testing.B) {
			dir := b.TempDir()
			l, err := Open(dir, Options{})
			require.NoError(b, err)
			load(b, l)
			fillStreams(b, l, 10_000, history)
			size := l.end
			require.NoError(b, l.Close())
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				l, err := Open(dir, Options{})
				require.NoError(b, err)
				require.Len(b, load(b, l).Images, 10_000)
				require.NoError(b, l.Close())
			}
		})
	}
}

func fillStreams(b *testing.B, l *Log, streams, history int) {
	img := &statemachine.Image{Epoch: 1, Anchored: true, Watermark: uint64(history), Received: uint64(history)}
	for id := range uint64(history) {
		img.Digests = append(img.Digests, statemachine.Digest{ID: id + 1, Sum: id * 0x9e3779b97f4a7c15})
	}
	whole := img.AppendWhole(nil)
	number := uint64(0)
	for i := 0; i < streams; i += 100 {
		number++
		c := &store.Checkpoint{Number: number}
		for j := range 100 {
			c.Changes = append(c.Changes, store.Change{Collector: fmt.Sprint("collector ", i+j), Delta: whole})
		}
		require.NoError(b, l.Save(background, c))
	}
	s := statemachine.New(&statemachine.Limits{QueueCapacity: 9, MaxCheckpoints: 1, MaxNacks: 1, Ahead: 4096, History: 4096})
	s.Anchor(1)
	step := func(id uint64) []byte {
		s.Receive(statemachine.Batch{ID: id, Digest: id, Records: 1})
		s.Emit(1)
		s.Settle(1)
		s.Snapshot(id)
		defer s.Complete(id)
		return s.AppendDelta(nil)
	}
	for id := range uint64(history) {
		step(id + 1)
	}
	delta := step(uint64(history) + 1)
	c := &store.Checkpoint{Number: number + 1}
	for i := 0; i < streams; i += 10 {
		c.Changes = append(c.Changes, store.Change{Collector: fmt.Sprint("collector ", i), Delta: delta})
	}
	require.NoError(b, l.Save(background, c))
	l.background.Wait()
}

// BenchmarkSave is a checkpoint of one changed stream, on the machine's disk.
func BenchmarkSave(b *testing.B) {
	l, err := Open(b.TempDir(), Options{})
	require.NoError(b, err)
	load(b, l)
	c := &store.Checkpoint{Position: make([]byte, 100), Changes: []store.Change{change("a", 5)}}
	b.ReportAllocs()
	for b.Loop() {
		c.Number++
		require.NoError(b, l.Save(background, c))
	}
	require.NoError(b, l.Close())
}
