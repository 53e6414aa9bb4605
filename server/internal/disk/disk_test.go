package disk_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/internal/disk/disktest"
)

func TestFull(t *testing.T) {
	require.True(t, disk.Full(&os.PathError{Err: syscall.ENOSPC}))
	require.True(t, disk.Full(&os.PathError{Err: syscall.EDQUOT}))
	require.False(t, disk.Full(syscall.EIO))
	require.False(t, disk.Full(nil))
}

// Both file systems do the same.
func TestFiles(t *testing.T) {
	for name, c := range map[string]struct {
		fs  disk.FS
		dir string
	}{"machine": {disk.OS, t.TempDir()}, "memory": {disktest.New(), "/"}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(c.dir, "a", "b")
			require.NoError(t, disk.MkdirAll(c.fs, dir, 0o700))
			require.NoError(t, disk.MkdirAll(c.fs, dir, 0o700))
			path := filepath.Join(dir, "f")
			_, err := c.fs.Open(path, false, 0o600)
			require.ErrorIs(t, err, os.ErrNotExist)
			f, err := c.fs.Open(path, true, 0o600)
			require.NoError(t, err)
			_, err = f.Write([]byte("0123456789"))
			require.NoError(t, err)
			require.NoError(t, f.Truncate(8))
			_, err = f.Write([]byte("ab"))
			require.NoError(t, err)
			require.NoError(t, f.Sync())
			byPath, err := c.fs.Stat(path)
			require.NoError(t, err)
			byFile, err := f.Stat()
			require.NoError(t, err)
			require.Equal(t, byPath, byFile)
			require.Equal(t, int64(10), byFile.Size)
			require.NotZero(t, byFile.Inode)

			require.NoError(t, f.Lock())
			other, err := c.fs.Open(path, false, 0o600)
			require.NoError(t, err)
			require.ErrorIs(t, other.Lock(), disk.ErrLocked)

			for _, want := range []string{path + ".x-1", path + ".x-2"} {
				aside, err := disk.SetAside(c.fs, f, 6, 10, path+".x-")
				require.NoError(t, err)
				require.Equal(t, want, aside)
				kept, err := c.fs.OpenRead(aside)
				require.NoError(t, err)
				b := make([]byte, 9)
				n, err := kept.ReadAt(b, 0)
				require.Equal(t, io.EOF, err)
				require.Equal(t, "67ab", string(b[:n]))
				require.NoError(t, kept.Close())
			}
			_, err = disk.SetAside(c.fs, f, 6, 11, path+".x-")
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.NoError(t, c.fs.Rename(path+".x-2", path+".x-20"))
			require.NoError(t, c.fs.Rename(path+".x-1", path+".x-no"))
			numbers, err := disk.Numbered(c.fs, path+".x-")
			require.NoError(t, err)
			require.Equal(t, []uint64{20}, numbers)

			require.NoError(t, f.Close())
			require.NoError(t, other.Lock())
			require.NoError(t, other.Close())
			require.ErrorContains(t, disk.MkdirAll(c.fs, path, 0o700), path+": is not a directory")
			require.NoError(t, c.fs.Remove(path))
			_, err = c.fs.Stat(path)
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

func TestClosedFile(t *testing.T) {
	f, err := disk.OS.Open(filepath.Join(t.TempDir(), "f"), true, 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Error(t, f.Sync())
	require.Error(t, f.Lock())
}

// The disk in memory is unkind: a power cut may lose what was not synced, keep it, or mix it.
func TestPowerCut(t *testing.T) {
	d := disktest.New()
	f, err := d.Open("/f", true, 0)
	require.NoError(t, err)
	_, err = f.Write([]byte(strings.Repeat("a", 200)))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	none, all := func(int) int { return 0 }, func(n int) int { return n - 1 }
	require.Empty(t, d.PowerCut(none).Files(), "the name was not synced")
	require.Len(t, d.PowerCut(all).Files()["/f"], 200)
	require.NoError(t, d.SyncDir("/"))
	require.Len(t, d.PowerCut(none).Files()["/f"], 200)

	_, err = f.Write([]byte(strings.Repeat("b", 200)))
	require.NoError(t, err)
	require.Len(t, d.PowerCut(none).Files()["/f"], 200)
	require.Equal(t, d.Files(), d.PowerCut(all).Files())
	require.Equal(t, d.Files(), d.Kill().Files())
	require.Len(t, d.Kill().PowerCut(none).Files()["/f"], 200, "a kill made something durable")
	picks := 0
	holes := string(d.PowerCut(func(n int) int {
		picks++
		if n > 2 {
			return n - 1 // the whole size
		}
		return picks % n
	}).Files()["/f"])
	require.Len(t, holes, 400)
	require.Contains(t, holes, "\x00", "a part that was not written")
	require.Contains(t, holes, "b", "a part that was")
}
