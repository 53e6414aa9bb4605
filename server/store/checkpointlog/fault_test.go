package checkpointlog

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/internal/disk/disktest"
	"github.com/tidemark/tidemark/server/store"
)

// failing makes the k-th call of one kind on the log fail, after n bytes of a write.
func failing(op disktest.Op, k, n int, err error) func(disktest.Call) (int, error) {
	return func(c disktest.Call) (int, error) {
		if c.Op != op || c.Path != path {
			return 0, nil
		}
		if k--; k == -1 {
			return min(n, c.Bytes), err
		}
		return 0, nil
	}
}

// A full disk costs nothing but time, wherever in a frame or its mark it strikes.
func TestB39DiskFullAtEveryByte(t *testing.T) {
	_, ends := written(t, 3)
	frame, mark := int(ends[3]-ends[2])-headSize, headSize
	for write, size := range []int{frame, mark} {
		for n := range size {
			for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
				d, _ := written(t, 2)
				l := open(t, d)
				load(t, l)
				d.Hook = failing(disktest.Write, write, n, full)
				err := l.Save(background, checkpoint(3))
				require.ErrorIs(t, err, store.ErrTransient)
				require.ErrorIs(t, err, full)
				after := d.Kill()
				st, err := tryLoad(t, after, Options{})
				require.NoError(t, err)
				require.Equal(t, stored(2), st, "write %d, %d bytes", write, n)

				require.NoError(t, l.Save(background, checkpoint(3)), "there is room again")
				require.NoError(t, l.Close())
				st, err = tryLoad(t, d, Options{})
				require.NoError(t, err)
				require.Equal(t, stored(3), st)
			}
		}
	}
}

// While the disk is full many tries change nothing; afterwards it goes on, with no stray files.
func TestB39TwentyCheckpointsOnAFullDisk(t *testing.T) {
	d, _ := written(t, 2)
	l := open(t, d)
	load(t, l)
	before := d.Files()
	d.Hook = func(c disktest.Call) (int, error) {
		if c.Op == disktest.Write {
			return 5, syscall.ENOSPC
		}
		return 0, nil
	}
	for range 20 {
		require.ErrorIs(t, l.Save(background, checkpoint(3)), store.ErrTransient)
		require.ErrorIs(t, l.Anchor(background, change("new", 1)), store.ErrTransient)
		require.Equal(t, before, d.Files())
	}
	d.Hook = nil
	require.NoError(t, l.Save(background, checkpoint(3)))
	require.NoError(t, l.Close())
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err)
	require.Equal(t, stored(3), st)
	require.Equal(t, []string{path, dir + "/" + lockName}, fileNames(d))
}

// After any other failure what is on disk is not known: nothing more is written to the file, not even
// when the disk recovers.
func TestOtherFailuresAreFinal(t *testing.T) {
	for name, hook := range map[string]func(disktest.Call) (int, error){
		"sync":                failing(disktest.Sync, 0, 0, syscall.EIO),
		"sync, no space":      failing(disktest.Sync, 0, 0, syscall.ENOSPC),
		"write of a frame":    failing(disktest.Write, 0, 7, syscall.EIO),
		"write of a mark":     failing(disktest.Write, 1, 7, syscall.EIO),
		"cut after full disk": cutFails(),
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := written(t, 2)
			l := open(t, d)
			load(t, l)
			calls := 0
			d.Hook = func(c disktest.Call) (int, error) {
				calls++
				return hook(c)
			}
			err := l.Save(background, checkpoint(3))
			require.Error(t, err)
			require.NotErrorIs(t, err, store.ErrTransient)
			calls = 0
			require.Equal(t, err, l.Save(background, checkpoint(3)))
			require.Equal(t, err, l.Anchor(background, change("new", 1)))
			require.Zero(t, calls, "the file was used again")
			d.Hook = nil
			require.NoError(t, l.Close())
			st, err := tryLoad(t, d, Options{})
			require.NoError(t, err)
			require.Contains(t, []*store.Stored{stored(2), stored(3)}, st)
		})
	}
}

func cutFails() func(disktest.Call) (int, error) {
	return func(c disktest.Call) (int, error) {
		switch c.Op {
		case disktest.Write:
			return 7, syscall.ENOSPC
		case disktest.Truncate:
			return 0, syscall.EIO
		default:
			return 0, nil
		}
	}
}

// What Load returns would be answered from, so a sync that fails there is an error, too.
func TestLoadFailsWithItsSyncs(t *testing.T) {
	for _, op := range []disktest.Op{disktest.Sync, disktest.SyncDir} {
		d, _ := written(t, 2)
		l := open(t, d)
		d.Hook = func(c disktest.Call) (int, error) {
			if c.Op == op {
				return 0, syscall.EIO
			}
			return 0, nil
		}
		_, err := l.Load(background)
		require.ErrorIs(t, err, syscall.EIO, op)
		require.Error(t, l.Save(background, checkpoint(3)))
		require.NoError(t, l.Close())
	}
}

// Numbers rise; a host that repeats one made a mistake that must not reach the disk.
func TestSaveRefusesOldNumbers(t *testing.T) {
	d, _ := written(t, 5)
	l := open(t, d)
	load(t, l)
	for _, n := range []uint64{0, 4, 5} {
		require.ErrorContains(t, l.Save(background, checkpoint(n)), fmt.Sprintf("checkpoint %d after checkpoint 5", n))
	}
	require.NoError(t, l.Save(background, checkpoint(6)))
}

// Bad input: a data directory that is not there, a file, not writable, unreadable, or in use.
func TestDataDirectory(t *testing.T) {
	t.Run("missing, and so is what is above it", func(t *testing.T) {
		d := disktest.New()
		l, err := Open("/a/b/c", Options{fs: d})
		require.NoError(t, err)
		st, err := l.Load(background)
		require.NoError(t, err)
		require.Equal(t, stored(0), st)
		require.NoError(t, l.Save(background, checkpoint(1)))
		after := d.PowerCut(func(int) int { return 0 })
		l, err = Open("/a/b/c", Options{fs: after})
		require.NoError(t, err)
		st, err = l.Load(background)
		require.NoError(t, err)
		require.Equal(t, stored(1), st, "a directory on the way was not durable")
	})
	t.Run("a file", func(t *testing.T) {
		d := disktest.New()
		d.Replace(dir, []byte("x"))
		_, err := Open(dir, Options{fs: d})
		require.ErrorContains(t, err, "data directory: /data: is not a directory")
	})
	t.Run("in use", func(t *testing.T) {
		dir := t.TempDir()
		l, err := Open(dir, Options{})
		require.NoError(t, err)
		_, err = Open(dir, Options{})
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, "data directory: "+dir+"/lock: in use by another process")
		require.NoError(t, l.Close())
		l, err = Open(dir, Options{})
		require.NoError(t, err)
		require.NoError(t, l.Close())
	})
}

func TestDataDirectoryWithoutPermission(t *testing.T) {
	for name, c := range map[string]struct {
		op  disktest.Op
		err error
	}{
		"can't be made": {disktest.Mkdir, syscall.EACCES}, "not writable": {disktest.Open, syscall.EACCES},
		"read-only disk": {disktest.Open, syscall.EROFS}, "unreadable": {disktest.SyncDir, syscall.EACCES},
	} {
		t.Run(name, func(t *testing.T) {
			d := disktest.New()
			d.Hook = func(call disktest.Call) (int, error) {
				if call.Op == c.op {
					return 0, c.err
				}
				return 0, nil
			}
			_, err := Open(dir, Options{fs: d})
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, "data directory: ")
			require.ErrorContains(t, err, "/")
			require.ErrorContains(t, err, c.err.Error())
			require.NotContains(t, fileNames(d), path)
		})
	}
	t.Run("not writable any more", func(t *testing.T) {
		d, _ := written(t, 1)
		l := open(t, d)
		d.Replace(path, nil)
		d.Hook = func(call disktest.Call) (int, error) {
			if call.Op == disktest.Open {
				return 0, fs.ErrPermission
			}
			return 0, nil
		}
		_, err := l.Load(background)
		require.ErrorIs(t, err, fs.ErrPermission)
	})
}
