package checkpointlog

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/internal/disk/disktest"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

const dir, path = "/data", "/data/" + FileName

var background = context.Background()

// image is what checkpoint n stores of stream a, and with every second one of stream b.
func image(n uint64) *statemachine.Image {
	return &statemachine.Image{
		Epoch: 1, Anchored: true, Watermark: n, Received: n + 2,
		Missing: []statemachine.Range{{First: n + 1, Last: n + 2}},
		Digests: []statemachine.Digest{{ID: n, Sum: n * 0x9e3779b97f4a7c15}},
	}
}

func change(collector string, n uint64) store.Change {
	return store.Change{Collector: collector, Delta: image(n).AppendWhole(nil)}
}

func checkpoint(n uint64) *store.Checkpoint {
	c := &store.Checkpoint{Number: n, Position: fmt.Append(nil, "position ", n), Changes: []store.Change{change("a", n)}}
	if n%2 == 0 {
		c.Changes = append(c.Changes, change("b", n))
	}
	return c
}

// stored is what a store holds after checkpoint n.
func stored(n uint64) *store.Stored {
	st := newStored()
	st.Number = n
	if n > 0 {
		st.Position = fmt.Append(nil, "position ", n)
		st.Images["a"] = image(n)
	}
	if n > 1 {
		st.Images["b"] = image(n &^ 1)
	}
	return st
}

func open(t testing.TB, d *disktest.Disk) *Log {
	t.Helper()
	l, err := Open(dir, Options{fs: d})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func load(t testing.TB, l *Log) *store.Stored {
	t.Helper()
	st, err := l.Load(background)
	require.NoError(t, err)
	return st
}

// written is a disk with a log of n checkpoints, closed, and where each of their frames ends.
func written(t testing.TB, n uint64) (d *disktest.Disk, ends []int64) {
	t.Helper()
	d = disktest.New()
	l := open(t, d)
	load(t, l)
	ends = []int64{l.end}
	for i := uint64(1); i <= n; i++ {
		require.NoError(t, l.Save(background, checkpoint(i)))
		ends = append(ends, l.end)
	}
	require.NoError(t, l.Close())
	return d, ends
}

// with is a disk whose log has these bytes.
func with(t testing.TB, data []byte) *disktest.Disk {
	t.Helper()
	d := disktest.New()
	require.NoError(t, d.Mkdir(dir, 0o700))
	d.Replace(path, data)
	return d
}

// tryLoad opens, loads and closes.
func tryLoad(t testing.TB, d *disktest.Disk, o Options) (*store.Stored, error) {
	t.Helper()
	o.fs = d
	l, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	st, err := l.Load(background)
	require.NoError(t, l.Close())
	return st, err
}

// logged collects log lines.
func logged() (*slog.Logger, *bytes.Buffer) {
	b := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(b, nil)), b
}

func fileNames(d *disktest.Disk) []string { return slices.Sorted(maps.Keys(d.Files())) }

const (
	waitLimit = 10 * time.Second
	pollEvery = time.Millisecond
)

// quick is the machine's disk without the waiting for it.
type quick struct{ disk.FS }

func (q quick) Open(path string, create bool, perm fs.FileMode) (disk.File, error) {
	f, err := q.FS.Open(path, create, perm)
	if err != nil {
		return nil, err
	}
	return unsynced{f}, nil
}

func (quick) SyncDir(string) error { return nil }

type unsynced struct{ disk.File }

func (unsynced) Sync() error { return nil }

// seatImage is the n-th seat of a stream, n from 1; the first has nobody retired.
func seatImage(n uint64) statemachine.SeatImage {
	img := statemachine.SeatImage{Instance: fmt.Sprint("instance ", n)}
	for i := max(1, n-min(n, statemachine.MaxRetired)); i < n; i++ {
		img.Retired = append(img.Retired, fmt.Sprint("instance ", i))
	}
	return img
}

func seatChange(collector string, n uint64) store.Change {
	img := seatImage(n)
	return store.Change{Collector: collector, Seat: &img}
}
