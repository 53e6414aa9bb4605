package checkpointlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/internal/disk/disktest"
	"github.com/tidemark/tidemark/server/store"
)

// requireDamage demands an error that names the file and the offset, and that nothing was touched.
func requireDamage(t *testing.T, data []byte, offset int64, msg string) {
	t.Helper()
	d := with(t, data)
	_, err := tryLoad(t, d, Options{})
	var damage *Damage
	require.ErrorAs(t, err, &damage, msg)
	require.Equal(t, path, damage.Path, msg)
	require.Equal(t, offset, damage.Offset, "%s: %v", msg, err)
	require.Contains(t, err.Error(), fmt.Sprintf("%s: damaged at offset %d: ", path, offset), msg)
	require.Equal(t, data, d.Files()[path], "%s: the evidence was changed", msg)
}

// requireLoads demands checkpoint n, twice, and that the log can be written to.
func requireLoads(t *testing.T, data []byte, n uint64, msg string) {
	t.Helper()
	d := with(t, data)
	for range 2 {
		st, err := tryLoad(t, d, Options{})
		require.NoError(t, err, msg)
		require.Equal(t, stored(n), st, msg)
	}
	l := open(t, d)
	load(t, l)
	require.NoError(t, l.Save(background, checkpoint(n+1)), msg)
	require.NoError(t, l.Close())
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err, msg)
	require.Equal(t, stored(n+1), st, msg)
}

// A log cut at any byte falls back to its last whole frame; without a whole header it is damaged.
func TestB14CutAtEveryByte(t *testing.T) {
	d, ends := written(t, 3)
	data := d.Files()[path]
	for size := range len(data) {
		msg := fmt.Sprintf("cut to %d bytes", size)
		if size < headerSize {
			requireDamage(t, data[:size], 0, msg)
			continue
		}
		n := uint64(3)
		for int64(size) < ends[n]-int64(headSize) && n > 0 { // its mark may be missing
			n--
		}
		requireLoads(t, data[:size], n, msg)
	}
}

// Whatever bit is flipped: what was durable and is not the same any more is damage.
func TestB14EveryBitFlipped(t *testing.T) {
	d, ends := written(t, 3)
	data := d.Files()[path]
	for bit := range 8 * len(data) {
		bad := bytes.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		msg := fmt.Sprintf("bit %d of byte %d", bit%8, bit/8)
		at := int64(bit / 8)
		if at < int64(headerSize) {
			requireDamage(t, bad, 0, msg)
			continue
		}
		frame := 1
		for at >= ends[frame] {
			frame++
		}
		mark := ends[frame] - int64(headSize)
		switch {
		case at < mark:
			requireDamage(t, bad, ends[frame-1], msg)
		case frame == 3 || bad[at] == 0:
			requireLoads(t, bad, 3, msg) // nothing is lost with a mark that another frame follows, or none
		default:
			requireDamage(t, bad, mark, msg)
		}
	}
}

func TestB14TrailingGarbage(t *testing.T) {
	d, ends := written(t, 3)
	data := d.Files()[path]
	for name, tail := range map[string][]byte{
		"zeros":           make([]byte, 5000),
		"text":            []byte("not a frame"),
		"first frame":     data[ends[0]:ends[1]],
		"a mark of yore":  data[ends[1]-int64(headSize) : ends[1]],
		"another log":     []byte(magic),
		"many half heads": bytes.Repeat([]byte(kindFrame+kindSeal), 100_000),
	} {
		requireLoads(t, append(bytes.Clone(data), tail...), 3, name)
	}
}

// A frame that is wrong is damage when its mark, or anything later, shows that it was durable.
func TestB14WhatComesLaterIsProof(t *testing.T) {
	d, ends := written(t, 3)
	data := d.Files()[path]
	mark := ends[3] - int64(headSize)
	zeroed := func(from, to int64) []byte {
		b := bytes.Clone(data)
		clear(b[from:to])
		return b
	}
	requireDamage(t, zeroed(ends[2], mark), ends[2], "the last frame, its mark left")
	requireDamage(t, zeroed(ends[1], ends[2]), ends[1], "a frame and its mark, a frame left")
	requireDamage(t, zeroed(ends[0], mark), ends[0], "all frames, the last mark left")
	requireDamage(t, append(bytes.Clone(data[:ends[1]]), data[ends[2]:]...), ends[1], "a frame cut out")
	flipped := bytes.Clone(data[:mark])
	flipped[ends[2]-1] ^= 0xff
	requireDamage(t, flipped, ends[2]-int64(headSize), "a mark, the frame after it left")
	requireLoads(t, zeroed(ends[2], ends[3]), 2, "the last frame and its mark never reached the disk")
	requireLoads(t, zeroed(ends[2]-int64(headSize), ends[2]), 3, "a mark never reached the disk, the frame after it did")
	requireLoads(t, zeroed(ends[2]-int64(headSize)/2, ends[2]), 3, "half a mark did")
	requireLoads(t, zeroed(ends[2]-int64(headSize), ends[3]), 2, "a mark and the frame after it did not")
}

func TestB14EmptyFileIsNoFirstRun(t *testing.T) {
	requireDamage(t, []byte{}, 0, "0 bytes")
}

func TestB14UnknownFormat(t *testing.T) {
	d, _ := written(t, 1)
	data := d.Files()[path]
	for _, unknown := range []uint32{0, format + 1} {
		binary.LittleEndian.PutUint32(data[8:], unknown)
		binary.LittleEndian.PutUint32(data[headerSize-4:], crc32.Checksum(data[:headerSize-4], castagnoli))
		for _, o := range []Options{{}, {Recover: true}} {
			d := with(t, data)
			_, err := tryLoad(t, d, o)
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorContains(t, err, fmt.Sprintf("%s: unknown format %d, this program reads formats 1 to 2", path, unknown))
			require.Equal(t, data, d.Files()[path], "a log of another program was changed")
		}
	}
}

func TestB14DirectoryInItsPlace(t *testing.T) {
	for _, o := range []Options{{}, {Recover: true}} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, FileName), 0o700))
		l, err := Open(dir, o)
		require.NoError(t, err)
		_, err = l.Load(background)
		require.ErrorContains(t, err, filepath.Join(dir, FileName)+": is not a regular file but a directory")
		require.NoError(t, l.Close())
	}
}

func TestB14UnreadableFile(t *testing.T) {
	for _, op := range []disktest.Op{disktest.Open, disktest.Read} {
		d, _ := written(t, 2)
		l := open(t, d)
		d.Hook = func(c disktest.Call) (int, error) {
			if c.Op == op && c.Path == path {
				return 0, syscall.EACCES
			}
			return 0, nil
		}
		_, err := l.Load(background)
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorContains(t, err, path)
		require.Error(t, l.Save(background, checkpoint(9)), "a log that could not be read is written to")
		d.Hook = nil
		require.NoError(t, l.Close())
		st, err := tryLoad(t, d, Options{})
		require.NoError(t, err)
		require.Equal(t, stored(2), st)
	}
}

func TestB14StrayTemporaryFile(t *testing.T) {
	d, _ := written(t, 3)
	d.Replace(path+tempSuffix, []byte("half a log"))
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err)
	require.Equal(t, stored(3), st)
	require.Equal(t, []string{path, dir + "/" + lockName}, fileNames(d))
}

// Recovery goes on from the last checkpoint before the damage, keeps the evidence, says what it did,
// and never uses a checkpoint number again that can be read.
func TestB14Recover(t *testing.T) {
	good, ends := written(t, 5)
	data := good.Files()[path]
	for frame := 1; frame <= 5; frame++ {
		bad := bytes.Clone(data)
		bad[ends[frame-1]+int64(headSize)+3] ^= 0x40
		d := with(t, bad)
		log, lines := logged()
		st, err := tryLoad(t, d, Options{Recover: true, Log: log})
		require.NoError(t, err)
		want := stored(uint64(frame - 1))
		want.Number = max(uint64(frame-1), uint64(5)) + 1
		if frame == 5 {
			want.Number = 5 // its own number can't be read: one above the last
		}
		require.Equal(t, want, st)
		require.Equal(t, bad, d.Files()[path+damagedSuffix+"1"])
		require.Contains(t, lines.String(), fmt.Sprintf("damaged at offset %d", ends[frame-1]))
		require.Contains(t, lines.String(), fmt.Sprintf("checkpoint=%d ", frame-1))
		require.Contains(t, lines.String(), "may be lost")

		again, err := tryLoad(t, d, Options{})
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
}

// A damaged header does not make the frames behind it useless.
func TestB14RecoverFromHeader(t *testing.T) {
	good, _ := written(t, 3)
	data := good.Files()[path]
	for _, at := range []int{0, 9, headerSize - 1} {
		bad := bytes.Clone(data)
		bad[at] ^= 1
		d := with(t, bad)
		st, err := tryLoad(t, d, Options{Recover: true})
		require.NoError(t, err)
		want := stored(3)
		want.Number++
		require.Equal(t, want, st)
		require.Equal(t, bad, d.Files()[path+damagedSuffix+"1"])
	}
	for _, bad := range [][]byte{{}, []byte("tidem"), []byte("something else altogether, and long enough")} {
		d := with(t, bad)
		st, err := tryLoad(t, d, Options{Recover: true})
		require.NoError(t, err)
		require.Equal(t, &store.Stored{Number: 1, Images: stored(0).Images, Seats: stored(0).Seats}, st)
		require.Equal(t, string(bad), string(d.Files()[path+damagedSuffix+"1"]))
	}
}

// Recovery that fails leaves the damaged log as it was.
func TestB14RecoverFails(t *testing.T) {
	good, ends := written(t, 3)
	bad := good.Files()[path]
	bad[ends[1]+int64(headSize)] ^= 1
	for failing := 0; ; failing++ {
		d := with(t, bad)
		calls := 0
		d.Hook = func(c disktest.Call) (int, error) {
			if c.Op == disktest.Read || c.Path == dir+"/"+lockName {
				return 0, nil
			}
			if calls++; calls-1 == failing {
				return 3, syscall.EIO
			}
			return 0, nil
		}
		_, err := tryLoad(t, d, Options{Recover: true})
		if err == nil {
			require.Greater(t, failing, 8)
			return
		}
		require.ErrorIs(t, err, syscall.EIO)
		d.Hook = nil
		st, err := tryLoad(t, d, Options{Recover: true})
		require.NoError(t, err, "call %d failed", failing)
		require.Equal(t, stored(1).Images, st.Images)
		require.Equal(t, stored(1).Position, st.Position)
	}
}

// A power cut can leave a mark blank, since it is not synced, and the frame behind it torn. Both go: a
// blank mark with a whole one behind it would be damage for the life after the next.
func TestB14BlankMarkBeforeATornFrame(t *testing.T) {
	d, ends := written(t, 3)
	data := d.Files()[path]
	data[ends[2]-5] = 0
	for size := ends[2]; size < ends[3]-int64(headSize); size++ {
		msg := fmt.Sprintf("cut to %d bytes, %d behind the mark", size, size-ends[2])
		d := with(t, data[:size])
		l := open(t, d)
		require.Equal(t, stored(2), load(t, l), msg)
		require.NoError(t, l.Save(background, checkpoint(3)), msg)
		require.NoError(t, l.Close())
		requireLoads(t, d.Files()[path], 3, msg)
	}
}
