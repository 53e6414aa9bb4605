package checkpointlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/internal/disk/disktest"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// Apply of a whole delta gives the image it was made from.
func TestWholeIsTheImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint64Range(1, statemachine.MaxNumber)
		img := &statemachine.Image{
			Epoch: rapid.Uint64().Draw(t, "epoch"), Anchored: rapid.Bool().Draw(t, "anchored"),
			Watermark: number.Draw(t, "watermark"), Received: number.Draw(t, "received"),
		}
		next := uint64(0)
		for range rapid.IntRange(0, 8).Draw(t, "digests") {
			next += rapid.Uint64Range(1, 3).Draw(t, "step")
			img.Digests = append(img.Digests, statemachine.Digest{ID: next, Sum: rapid.Uint64().Draw(t, "sum")})
		}
		next = 0
		for range rapid.IntRange(0, 5).Draw(t, "missing") {
			first := next + rapid.Uint64Range(2, 9).Draw(t, "gap")
			next = first + rapid.Uint64Range(0, 9).Draw(t, "length")
			img.Missing = append(img.Missing, statemachine.Range{First: first, Last: next})
		}
		for range rapid.IntRange(0, 5).Draw(t, "queue") {
			img.Queue = append(img.Queue, statemachine.Batch{
				ID: number.Draw(t, "id"), Digest: rapid.Uint64().Draw(t, "digest"), Records: rapid.IntRange(1, 1000).Draw(t, "records"),
				Payload: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "payload"),
			})
		}
		got := &statemachine.Image{Watermark: 77, Digests: []statemachine.Digest{{ID: 1}}}
		require.NoError(t, got.Apply(img.AppendWhole(nil)))
		require.Equal(t, img, got)
	})
}

// B39: however many checkpoints, the number of files stays the documented one, and the log small.
func TestB39TenThousandCheckpoints(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{fs: quick{disk.OS}, floor: 64 << 10})
	require.NoError(t, err)
	load(t, l)
	const last = 10_000
	largest := int64(0)
	for n := uint64(1); n <= last; n++ {
		require.NoError(t, l.Save(background, checkpoint(n)))
		l.turn.Lock()
		largest = max(largest, l.end)
		l.turn.Unlock()
		if n%500 == 0 {
			l.background.Wait()
		}
	}
	require.NoError(t, l.Close())
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, FileName), filepath.Join(dir, lockName)}, names)
	require.Less(t, largest, int64(512<<10))

	l, err = Open(dir, Options{})
	require.NoError(t, err)
	require.Equal(t, stored(last), load(t, l))
	require.NoError(t, l.Close())
}

// Checkpoints and anchors that come while the log is rewritten are in the new one.
func TestRewriteBesideSaves(t *testing.T) {
	d := disktest.New()
	l, err := Open(dir, Options{fs: d, floor: 700, part: 500})
	require.NoError(t, err)
	load(t, l)
	held, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.Hook = func(c disktest.Call) (int, error) {
		if c.Op == disktest.Open && c.Path == path+tempSuffix {
			once.Do(func() { close(held) })
			<-goOn
		}
		return 0, nil
	}
	n := uint64(0)
	save := func() {
		n++
		require.NoError(t, l.Save(background, checkpoint(n)))
	}
	for begun := false; !begun; {
		save()
		l.turn.Lock()
		begun = l.rewriting
		l.turn.Unlock()
	}
	<-held
	first := n
	var names []string
	for i := range 400 { // more than is copied while nobody may write
		save()
		names = append(names, fmt.Sprint(i, strings.Repeat("x", 1000)))
		require.NoError(t, l.Anchor(background, change(names[i], 5)))
	}
	close(goOn)
	l.background.Wait()
	save()
	require.NoError(t, l.Close())

	want := stored(first + 401)
	for _, name := range names {
		want.Images[name] = image(5)
	}
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err)
	require.Equal(t, want, st)
	require.NotContains(t, fileNames(d), path+tempSuffix)
}

// A rewriting that fails costs nothing: the log goes on as it was, and it is not tried in a loop.
func TestRewriteThatFails(t *testing.T) {
	for _, op := range []disktest.Op{disktest.Open, disktest.Write, disktest.Sync, disktest.Rename} {
		t.Run(string(op), func(t *testing.T) {
			d := disktest.New()
			log, lines := logged()
			l, err := Open(dir, Options{fs: d, floor: 2000, Log: log})
			require.NoError(t, err)
			load(t, l)
			tries := 0
			d.Hook = func(c disktest.Call) (int, error) {
				if c.Op == op && c.Path == path+tempSuffix {
					tries++
					return 3, syscall.ENOSPC
				}
				return 0, nil
			}
			for n := uint64(1); n <= 60; n++ {
				require.NoError(t, l.Save(background, checkpoint(n)))
				l.background.Wait()
			}
			require.LessOrEqual(t, tries, int(l.end)/2000)
			require.GreaterOrEqual(t, tries, 2)
			require.Contains(t, lines.String(), "was not rewritten")
			require.NotContains(t, fileNames(d), path+tempSuffix)
			require.NoError(t, l.Close())
			st, err := tryLoad(t, d, Options{})
			require.NoError(t, err)
			require.Equal(t, stored(60), st)
		})
	}
}

// Once the new log has its name and the directory can't be synced, nobody knows which one is there.
func TestRewriteWithoutDirectoryIsFinal(t *testing.T) {
	d := disktest.New()
	l, err := Open(dir, Options{fs: d, floor: 700})
	require.NoError(t, err)
	load(t, l)
	d.Hook = func(c disktest.Call) (int, error) {
		if c.Op == disktest.SyncDir {
			return 0, syscall.EIO
		}
		return 0, nil
	}
	n := uint64(0)
	for err == nil {
		n++
		err = l.Save(background, checkpoint(n))
		l.background.Wait()
	}
	require.ErrorIs(t, err, syscall.EIO)
	require.NotErrorIs(t, err, store.ErrTransient)
	require.NoError(t, l.Close())
	d.Hook = nil
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err)
	require.Equal(t, stored(n-1), st)
}

// A log is rewritten after a restart, too: the limit is that of what it holds, not of its size.
func TestRewriteAfterRestart(t *testing.T) {
	d := disktest.New()
	largest := 0
	for life := range uint64(50) {
		l, err := Open(dir, Options{fs: d, floor: 2000})
		require.NoError(t, err)
		st := load(t, l)
		require.Equal(t, stored(4*life), st)
		for n := st.Number + 1; n <= st.Number+4; n++ {
			require.NoError(t, l.Save(background, checkpoint(n)))
		}
		l.background.Wait()
		largest = max(largest, len(d.Files()[path]))
		require.NoError(t, l.Close())
	}
	require.Less(t, largest, 3000)
}

// Anchors that wait for a sync share the next one, and a Save with them.
func TestAnchorsShareASync(t *testing.T) {
	d := disktest.New()
	l := open(t, d)
	load(t, l)
	held, goOn := make(chan struct{}), make(chan struct{})
	syncs := 0
	d.Hook = func(c disktest.Call) (int, error) {
		if c.Op == disktest.Sync {
			if syncs++; syncs == 1 {
				close(held)
				<-goOn
			}
		}
		return 0, nil
	}
	const many = 50
	var all sync.WaitGroup
	errs := make(chan error, many+2)
	all.Go(func() { errs <- l.Anchor(background, change("first", 1)) })
	<-held
	for i := range many {
		all.Go(func() { errs <- l.Anchor(background, change(fmt.Sprint("anchored ", i), 1)) })
	}
	all.Go(func() { errs <- l.Save(background, checkpoint(1)) })
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.waiting != nil && len(l.waiting.entry.anchors) == many && l.waiting.entry.number == 1
	}, waitLimit, pollEvery)
	close(goOn)
	all.Wait()
	for range many + 2 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 2, syncs)
	require.NoError(t, l.Close())
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err)
	require.Len(t, st.Images, many+2)
	require.Equal(t, uint64(1), st.Number)
}

// An anchor that comes late does not take a stream back.
func TestAnchorOfAKnownStreamChangesNothing(t *testing.T) {
	d, _ := written(t, 2)
	l := open(t, d)
	load(t, l)
	require.NoError(t, l.Anchor(background, change("a", 1)))
	require.NoError(t, l.Close())
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err)
	require.Equal(t, stored(2), st)
}

func TestLogIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l, err := Open(dir, Options{})
	require.NoError(t, err)
	load(t, l)
	require.NoError(t, l.Close())
	for name, mode := range map[string]os.FileMode{"": 0o700, FileName: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
}
