package checkpointlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/internal/disk/disktest"
	"github.com/tidemark/tidemark/server/store"
)

// formatOne is a log that a program wrote which knew format 1 only: an anchor, and checkpoints 1 to 3.
func formatOne(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "format-1.log"))
	require.NoError(t, err)
	require.Equal(t, byte(1), data[len(magic)])
	return data
}

// storedByOne is what a store holds after checkpoint n of it.
func storedByOne(n uint64) *store.Stored {
	st := stored(n)
	st.Images["anchored"] = image(1)
	return st
}

// formatOf is the format number that the log on a disk has.
func formatOf(d *disktest.Disk) byte { return d.Files()[path][len(magic)] }

// A log of format 1 is taken over whole, and goes on with seats, as a log that its own program refuses.
func TestUpgradeFromFormatOne(t *testing.T) {
	d := with(t, formatOne(t))
	log, lines := logged()
	l, err := Open(dir, Options{fs: d, Log: log})
	require.NoError(t, err)
	require.Equal(t, storedByOne(3), load(t, l))
	require.Equal(t, byte(2), formatOf(d))
	require.Contains(t, lines.String(), "format=2 format_before=1")
	require.NoError(t, l.Anchor(background, seatChange("a", 2)))
	require.NoError(t, l.Save(background, checkpoint(4)))
	require.NoError(t, l.Close())

	want := storedByOne(4)
	want.Seats["a"] = seatImage(2)
	log, lines = logged()
	st, err := tryLoad(t, d, Options{Log: log})
	require.NoError(t, err)
	require.Equal(t, want, st)
	require.Empty(t, lines.String())
	require.Equal(t, []string{path, dir + "/" + lockName}, fileNames(d))
}

func TestUpgradeOfAnEmptyLog(t *testing.T) {
	d := with(t, formatOne(t)[:headerSize])
	for range 2 {
		st, err := tryLoad(t, d, Options{})
		require.NoError(t, err)
		require.Equal(t, stored(0), st)
		require.Equal(t, byte(2), formatOf(d))
	}
}

// To look at a log of format 1 changes nothing.
func TestInspectOfFormatOne(t *testing.T) {
	dir, data := t.TempDir(), formatOne(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), data, 0o600))
	require.Contains(t, inspected(t, dir), "format      1\n")
	require.Contains(t, inspected(t, dir), "checkpoint  3\n")
	st, _, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, storedByOne(3), st)
	after, err := os.ReadFile(filepath.Join(dir, FileName))
	require.NoError(t, err)
	require.Equal(t, data, after)
}

// A log of format 1 whose end is torn is cut there, like any other.
func TestB14UpgradeCutAtEveryByte(t *testing.T) {
	data := formatOne(t)
	third := bytes.LastIndex(data, []byte(kindFrame))
	for size := third; size < len(data); size++ {
		want := storedByOne(2)
		if size >= len(data)-headSize {
			want = storedByOne(3)
		}
		d := with(t, data[:size])
		for range 2 {
			st, err := tryLoad(t, d, Options{})
			require.NoError(t, err)
			require.Equal(t, want, st, "cut to %d bytes", size)
			require.Equal(t, byte(2), formatOf(d))
		}
	}
}

// Damage is not taken over: the log stays in format 1 until an operator decides. Then it is the
// evidence, also when the damage is the number of the format.
func TestB14UpgradeOfDamage(t *testing.T) {
	data := formatOne(t)
	bad := bytes.Clone(data)
	bad[headerSize+headSize] ^= 1
	requireDamage(t, bad, int64(headerSize), "the first frame")
	bad = bytes.Clone(data)
	bad[len(magic)] = 77
	requireDamage(t, bad, 0, "the format")

	d := with(t, bad)
	st, err := tryLoad(t, d, Options{Recover: true})
	require.NoError(t, err)
	want := storedByOne(3)
	want.Number++
	require.Equal(t, want, st)
	require.Equal(t, byte(2), formatOf(d))
	require.Equal(t, bad, d.Files()[path+damagedSuffix+"1"])
}

// Whatever call of the taking over a process dies in, and whatever a power cut leaves then: the log is
// in the one format or the other, and holds the same.
func TestCrashAnywhereInAnUpgrade(t *testing.T) {
	want := storedByOne(3)
	formats := map[byte]int{}
	for k, died := 0, true; died; k++ {
		for seed := range uint64(12) {
			msg := fmt.Sprintf("call %d, seed %d", k, seed)
			random := rand.New(rand.NewPCG(seed, uint64(k)))
			d := with(t, formatOne(t))
			d.Hook = dying(k, random.IntN(200))
			died = upgradeFails(d)
			after := cut(d, seed, random)
			if died {
				formats[formatOf(after)]++
			}
			st, err := tryLoad(t, after, Options{})
			require.NoError(t, err, msg)
			require.Equal(t, want, st, msg)
			st, err = tryLoad(t, after.PowerCut(random.IntN), Options{})
			require.NoError(t, err, msg)
			require.Equal(t, want, st, "%s: what Load returned was not durable", msg)
		}
	}
	require.Greater(t, formats[1], 50)
	require.Positive(t, formats[2], "no crash after the new log has its name")
}

func upgradeFails(d *disktest.Disk) bool {
	l, err := Open(dir, Options{fs: d, part: 100})
	if err != nil {
		return true
	}
	defer l.Close()
	_, err = l.Load(background)
	return err != nil
}

// A disk without room for the new log fails the start and leaves the old one, with no stray files.
func TestUpgradeOnAFullDisk(t *testing.T) {
	data := formatOne(t)
	for n := range 100 {
		d := with(t, data)
		d.Hook = func(c disktest.Call) (int, error) {
			if c.Op == disktest.Write {
				return min(n, c.Bytes-1), syscall.ENOSPC
			}
			return 0, nil
		}
		_, err := tryLoad(t, d, Options{})
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "rewriting "+path+" from format 1 to format 2: ")
		require.Equal(t, data, d.Files()[path])
		require.Equal(t, []string{path, dir + "/" + lockName}, fileNames(d))
		d.Hook = nil
		st, err := tryLoad(t, d, Options{})
		require.NoError(t, err)
		require.Equal(t, storedByOne(3), st)
	}
}
