package file

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/internal/disk/disktest"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

const path = "/out"

var background = context.Background()

// life is a sink on a disk in memory that has recovered.
type life struct {
	t *testing.T
	*Sink
	txn sink.Txn
}

func open(t *testing.T, d *disktest.Disk, o Options) *Sink {
	t.Helper()
	o.Path, o.fs = path, d
	s, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func begin(t *testing.T, d *disktest.Disk, position []byte, o Options) *life {
	t.Helper()
	s := open(t, d, o)
	require.NoError(t, s.Recover(background, position))
	txn, err := s.Begin(background)
	require.NoError(t, err)
	return &life{t, s, txn}
}

func delivery(records ...string) sink.Delivery {
	d := sink.Delivery{Collector: "a"}
	for i, r := range records {
		d.Batches = append(d.Batches, statemachine.Batch{ID: uint64(i + 1), Records: 1, Payload: protocol.AppendRecord(nil, []byte(r))})
	}
	return d
}

func (l *life) write(records ...string) {
	l.t.Helper()
	n, err := l.txn.Write(background, delivery(records...))
	require.NoError(l.t, err)
	require.Equal(l.t, len(records), n)
}

func (l *life) commit() []byte {
	l.t.Helper()
	position, err := l.txn.Seal()
	require.NoError(l.t, err)
	require.NoError(l.t, l.txn.Commit(background))
	return position
}

// committed is a disk with a file whose last checkpoint is at the position, closed.
func committed(t *testing.T, o Options, records ...string) (*disktest.Disk, []byte) {
	t.Helper()
	d := disktest.New()
	l := begin(t, d, nil, o)
	l.write(records...)
	position := l.commit()
	require.NoError(t, l.Close())
	return d, position
}

func logged(o Options) (Options, *bytes.Buffer) {
	b := new(bytes.Buffer)
	o.Log = slog.New(slog.NewTextHandler(b, nil))
	return o, b
}

func content(d *disktest.Disk) string { return string(d.Files()[path]) }

// rewrite changes the bytes of the file and leaves the inode as it is.
func rewrite(t *testing.T, d *disktest.Disk, data string) {
	t.Helper()
	f, err := d.Open(path, true, 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(0))
	_, err = f.Write([]byte(data))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestParseFraming(t *testing.T) {
	for word, want := range map[string]Framing{"lf": LF, "length": Length} {
		got, err := ParseFraming(word)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := ParseFraming("crlf")
	require.EqualError(t, err, `framing is "crlf", allowed is lf or length`)
}

func TestBytes(t *testing.T) {
	d, _ := committed(t, Options{}, "a", "", "b\r")
	require.Equal(t, "a\n\nb\r\n", content(d))
	d, _ = committed(t, Options{Framing: Length}, "a", "", strings.Repeat("x", 200))
	require.Equal(t, "\x01a\x00\xc8\x01"+strings.Repeat("x", 200), content(d))
}

func TestOneWritePerDelivery(t *testing.T) {
	d := disktest.New()
	l := begin(t, d, nil, Options{})
	writes := 0
	d.Hook = func(c disktest.Call) (int, error) {
		if c.Op == disktest.Write {
			writes++
		}
		return 0, nil
	}
	l.write("a", "b", "c")
	require.Equal(t, 1, writes)
	l.write()
	require.Equal(t, 1, writes, "nothing to write")
	delivery := delivery("record", "another", "and one more")
	require.Less(t, testing.AllocsPerRun(100, func() { _, _ = l.txn.Write(background, delivery) }), 3.0)
}

// A disk that is full in the middle of a delivery leaves whole batches, wherever it strikes.
func TestB39DiskFullAtEveryByte(t *testing.T) {
	records := []string{"one", "", "three", "four 4444"}
	whole := "one\n\nthree\nfour 4444\n"
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		for room := range len(whole) {
			d := disktest.New()
			l := begin(t, d, nil, Options{})
			l.write("before")
			d.Hook = func(c disktest.Call) (int, error) {
				if c.Op == disktest.Write {
					return room, full
				}
				return 0, nil
			}
			n, err := l.txn.Write(background, delivery(records...))
			require.ErrorIs(t, err, sink.ErrTransient)
			require.ErrorIs(t, err, full)
			require.Equal(t, strings.Count(whole[:room], "\n"), n)
			require.Equal(t, "before\n"+strings.Join(append(slices.Clone(records[:n]), ""), "\n"), content(d))
			d.Hook = nil
			l.write(records[n:]...)
			position := l.commit()
			require.NoError(t, l.Close())
			require.NoError(t, begin(t, d, position, Options{}).Close())
			require.Equal(t, "before\n"+whole, content(d))
		}
	}
}

// After any other failure the file is not used again, not even when the disk recovers.
func TestOtherFailuresAreFinal(t *testing.T) {
	for name, failing := range map[string]map[disktest.Op]error{
		"write":             {disktest.Write: syscall.EIO},
		"cut":               {disktest.Write: syscall.ENOSPC, disktest.Truncate: syscall.EIO},
		"sync":              {disktest.Sync: syscall.EIO},
		"sync without room": {disktest.Sync: syscall.ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			d := disktest.New()
			l := begin(t, d, nil, Options{})
			d.Hook = func(c disktest.Call) (int, error) { return 1, failing[c.Op] }
			_, err := l.txn.Write(background, delivery("a"))
			if err == nil {
				err = l.txn.Commit(background)
			}
			require.Error(t, err)
			require.NotErrorIs(t, err, sink.ErrTransient)
			calls := 0
			d.Hook = func(disktest.Call) (int, error) {
				calls++
				return 0, nil
			}
			n, again := l.txn.Write(background, delivery("b"))
			require.Zero(t, n)
			require.Equal(t, err, again)
			require.Equal(t, err, l.txn.Commit(background))
			_, again = l.txn.Seal()
			require.Equal(t, err, again)
			_, again = l.Begin(background)
			require.Equal(t, err, again)
			require.Zero(t, calls, "the file was used again")
		})
	}
}

// At each barrier the file must be what the sink left.
func TestSealNoticesOthers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *disktest.Disk)
		want   string
	}{
		"removed":  {func(_ *testing.T, d *disktest.Disk) { d.Replace(path, nil) }, "removed or renamed by someone else"},
		"replaced": {func(_ *testing.T, d *disktest.Disk) { d.Replace(path, []byte("abc\n")) }, "replaced by someone else: inode 1 is now 2"},
		"longer":   {func(t *testing.T, d *disktest.Disk) { rewrite(t, d, "abc\nd") }, "changed by someone else: the size should be 4 and is 5"},
		"emptied":  {func(t *testing.T, d *disktest.Disk) { rewrite(t, d, "") }, "changed by someone else: the size should be 4 and is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			d := disktest.New()
			l := begin(t, d, nil, Options{})
			l.write("abc")
			c.change(t, d)
			_, err := l.txn.Seal()
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
			require.NotErrorIs(t, err, sink.ErrTransient)
			require.Error(t, l.txn.Commit(background), "a commit after a barrier that failed")
		})
	}
}

// Bad input: what an output path may be instead of a file that can be written.
func TestOutputFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	require.NoError(t, err)
	defer socket.Close()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600))
	for path, want := range map[string]string{
		dir:                              dir + ": is not a regular file but a directory",
		pipe:                             pipe + ": is not a regular file but a named pipe",
		filepath.Join(dir, "socket"):     "is not a regular file but a socket",
		"/dev/null":                      "/dev/null: is not a regular file but a device",
		filepath.Join(dir, "no", "f"):    filepath.Join(dir, "no", "f") + ": no such file or directory",
		filepath.Join(dir, "plain", "f"): "not a directory",
	} {
		_, err := Open(Options{Path: path})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "output file: ")
	}
	in, err := Open(Options{Path: filepath.Join(dir, "f")})
	require.NoError(t, err)
	_, err = Open(Options{Path: filepath.Join(dir, "f")})
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, in.Close())
	again, err := Open(Options{Path: filepath.Join(dir, "f")})
	require.NoError(t, err)
	require.NoError(t, again.Close())

	d := disktest.New()
	d.Hook = func(disktest.Call) (int, error) { return 0, syscall.EACCES }
	_, err = Open(Options{Path: path, fs: d})
	require.ErrorIs(t, err, fs.ErrPermission)
}

func fileNames(d *disktest.Disk) []string { return slices.Sorted(maps.Keys(d.Files())) }

func names(from, to int) (list []string) {
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprint(path, cutSuffix, i))
	}
	return list
}
