package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/server/store/checkpointlog"
	"github.com/tidemark/tidemark/statemachine"
)

// writtenLog is a log of good frames: its bytes, and for each number of frames what is stored by then and where they end.
type writtenLog struct {
	data   []byte
	states []*store.Stored
	ends   []int
}

// logged is what checkpoint n stores of a stream, in a log that keeps payloads or does not.
func logged(n uint64, payloads bool) *statemachine.Image {
	img := &statemachine.Image{Epoch: 1, Anchored: true, Watermark: n, Received: n + 2,
		Digests: []statemachine.Digest{{ID: n, Sum: n * 0x9e3779b97f4a7c15}}}
	if !payloads {
		img.Missing = []statemachine.Range{{First: n + 1, Last: n + 2}}
		return img
	}
	for id := n + 1; id <= n+2; id++ {
		img.Queue = append(img.Queue, statemachine.Batch{ID: id, Digest: id, Records: 1, Payload: fmt.Appendf(nil, "fram seal %d", id)})
	}
	return img
}

// writeLog makes a log of an anchor and seven checkpoints of up to three streams.
func writeLog(t testing.TB, payloads bool) (w writtenLog) {
	dir := memoryDir(t)
	l, err := checkpointlog.Open(dir, checkpointlog.Options{})
	require.NoError(t, err)
	_, err = l.Load(context.Background())
	require.NoError(t, err)
	path := filepath.Join(dir, checkpointlog.FileName)
	seats := map[string]statemachine.SeatImage{}
	now := &store.Stored{Images: map[string]*statemachine.Image{}, Seats: seats}
	note := func() {
		info, err := os.Stat(path)
		require.NoError(t, err)
		state := &store.Stored{Number: now.Number, Position: now.Position, Images: map[string]*statemachine.Image{}, Seats: maps.Clone(seats)}
		for name, img := range now.Images {
			state.Images[name] = img
		}
		w.states, w.ends = append(w.states, state), append(w.ends, int(info.Size()))
	}
	note()
	now.Images["c"] = &statemachine.Image{Anchored: true}
	require.NoError(t, l.Anchor(context.Background(), store.Change{Collector: "c", Delta: now.Images["c"].AppendWhole(nil)}))
	note()
	seats["a"] = statemachine.SeatImage{Instance: "two", Retired: []string{"one"}}
	seat := seats["a"]
	require.NoError(t, l.Anchor(context.Background(), store.Change{Collector: "a", Seat: &seat}))
	note()
	for n := uint64(1); n <= 7; n++ {
		now.Number, now.Position = 2*n, fmt.Append(nil, "position ", n)
		c := &store.Checkpoint{Number: now.Number, Position: now.Position}
		for i, name := range []string{"a", "b", "c"} {
			if n%(uint64(i)+1) == 0 {
				now.Images[name] = logged(n, payloads)
				c.Changes = append(c.Changes, store.Change{Collector: name, Delta: now.Images[name].AppendWhole(nil)})
			}
		}
		require.NoError(t, l.Save(context.Background(), c))
		note()
	}
	require.NoError(t, l.Close())
	w.data, err = os.ReadFile(path)
	require.NoError(t, err)
	return w
}

func requireStored(t testing.TB, want, got *store.Stored) {
	t.Helper()
	require.Equal(t, want.Number, got.Number)
	require.True(t, bytes.Equal(want.Position, got.Position))
	require.Equal(t, want.Seats, got.Seats)
	require.Len(t, got.Images, len(want.Images))
	for name, img := range want.Images {
		require.Contains(t, got.Images, name)
		requireSame(t, img, got.Images[name])
	}
}

// readLog reads a log of these bytes, alone and then to go on with it, and demands the same of both: damage at one
// place, or one state. Reading it goes over the file once, and twice more from a damage on; the frames and the images
// they make take a few times their size.
func readLog(t testing.TB, dir string, data []byte) (*store.Stored, *checkpointlog.Info, error) {
	t.Helper()
	path := filepath.Join(dir, checkpointlog.FileName)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	bounded(t, len(data), 64, 16<<10, func() { checkpointlog.Read(path) })
	st, info, err := checkpointlog.Read(path)

	l, openErr := checkpointlog.Open(dir, checkpointlog.Options{})
	require.NoError(t, openErr)
	loaded, loadErr := l.Load(context.Background())
	require.NoError(t, l.Close())
	if err != nil {
		require.ErrorIs(t, err, checkpointlog.ErrFormat)
		require.ErrorContains(t, err, path)
		require.ErrorIs(t, loadErr, checkpointlog.ErrFormat)
		return nil, nil, err
	}
	if info.Damage == nil {
		require.NoError(t, loadErr)
		requireStored(t, st, loaded)
		return st, info, nil
	}
	var damage *checkpointlog.Damage
	require.True(t, errors.As(loadErr, &damage), "%v", loadErr)
	require.Equal(t, info.Damage, damage)
	require.Equal(t, path, damage.Path)
	require.LessOrEqual(t, damage.Offset, int64(len(data)))
	after, readErr := os.ReadFile(path)
	require.NoError(t, readErr)
	require.True(t, bytes.Equal(data, after), "what is damaged is left alone")
	return st, info, nil
}

// FuzzLog: any bytes in the place of a log. FuzzLoad of package checkpointlog does this with recovery, on a disk in
// memory; here it is about reading a log alone and loading it, which must say the same.
func FuzzLog(f *testing.F) {
	dir := memoryDir(f)
	for _, payloads := range []bool{false, true} {
		w := writeLog(f, payloads)
		f.Add(w.data)
		f.Add(w.data[:w.ends[3]-5])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) { readLog(t, dir, data) })
}

// same is how many bytes are as they were written. A byte of a mark may be zero as well: before another frame a mark may
// never have reached the disk.
func (w *writtenLog) same(data []byte) int {
	frame := 1
	for i := range min(len(data), len(w.data)) {
		if i == w.ends[frame] {
			frame++
		}
		blank := data[i] == 0 && i >= w.ends[frame]-markSize
		if data[i] != w.data[i] && !blank {
			return i
		}
	}
	return min(len(data), len(w.data))
}

// FuzzLogDamage: a log of which parts were changed, lost or moved is read as the frames before that, with the number
// and the watermarks they stored, and says where the rest begins to be wrong, or that it was cut short.
func FuzzLogDamage(f *testing.F) {
	dir := memoryDir(f)
	logs := []writtenLog{writeLog(f, false), writeLog(f, true)}
	for i := range 24 {
		at := byte(i * 37)
		f.Add(i%2 == 0, []byte{0, 0, 0, 0, 0, 0, 3, 0, 1, byte(i % 4), at, byte(i % 4), 1 << (i % 8)})
		f.Add(i%2 == 0, []byte{1, at, 0, at, 2, 200, byte(i % 3)})
	}
	f.Add(true, []byte{})
	w := logs[1]
	for kind := range byte(3) { // whole frames with their marks, taken out, repeated, or over others
		for _, frame := range []int{1, 4, 7} {
			var choices []byte
			for _, n := range []int{w.ends[frame], w.ends[frame+1] - w.ends[frame], w.ends[frame/2+3]} {
				choices = binary.BigEndian.AppendUint16(choices, uint16(n))
			}
			f.Add(true, append(choices, kind))
		}
	}
	f.Fuzz(func(t *testing.T, payloads bool, choices []byte) {
		w := logs[0]
		if payloads {
			w = logs[1]
		}
		d := &draw{choices}
		data := d.damage(d.swap(w.data))
		same := w.same(data)
		st, info, err := readLog(t, dir, data)
		if err != nil {
			t.Fatalf("the format's check must fail with the format: %v", err)
		}
		require.Less(t, info.Frames, uint64(len(w.states)))
		requireStored(t, w.states[info.Frames], st)
		good := 0 // frames that are whole
		for good+1 < len(w.ends) && w.ends[good+1]-markSize <= same {
			good++
		}
		require.GreaterOrEqual(t, info.Frames, uint64(good), "%d frames are as they were written", good)
		switch {
		case info.Damage != nil:
			require.LessOrEqual(t, info.Damage.Offset, int64(same), "the first wrong byte")
		case info.Torn == "" && info.Sealed:
			require.Contains(t, w.ends, len(data))
		}
	})
}

// markSize is the bytes of the mark behind each frame, as frame.go of package checkpointlog has it.
const markSize = 28
