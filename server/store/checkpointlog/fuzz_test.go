package checkpointlog

import (
	"errors"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

// The two targets here, unlike those of package fuzz, need what this package keeps to itself: a disk in memory below Open,
// which recovery would otherwise have to wait for, and the form of a frame.

// Whatever bytes lie in the place of a log: no panic, and an answer that stays the same.
func FuzzLoad(f *testing.F) {
	d, ends := written(f, 3)
	data := d.Files()[path]
	f.Add(data)
	f.Add(data[:ends[2]+9])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := tryLoad(t, with(t, data), Options{})
		if err != nil {
			require.True(t, errors.As(err, new(*Damage)) || errors.Is(err, ErrFormat), "%v", err)
			d := with(t, data)
			st, err := tryLoad(t, d, Options{Recover: true})
			if errors.Is(err, ErrFormat) {
				return
			}
			require.NoError(t, err)
			first, data = st, d.Files()[path]
		}
		d := with(t, data)
		again, err := tryLoad(t, d, Options{})
		require.NoError(t, err)
		require.Equal(t, first, again)
		once := d.Files()[path]
		_, err = tryLoad(t, d, Options{})
		require.NoError(t, err)
		require.Equal(t, once, d.Files()[path], "loading again changes the log")
	})
}

// A frame that is right by its checks may hold any body: what makes no sense is damage.
func FuzzBody(f *testing.F) {
	d, ends := written(f, 2)
	data := d.Files()[path]
	f.Add(data[ends[0]+int64(headSize) : ends[1]-int64(headSize)])
	f.Add(data[ends[1]+int64(headSize) : ends[2]-int64(headSize)])
	f.Add(seatsBody(seat{"a", seatImage(3)}, seat{"b", seatImage(1)}))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := tryLoad(t, with(t, logOf(body)), Options{})
		if err == nil {
			return
		}
		var damage *Damage
		require.ErrorAs(t, err, &damage)
		require.Equal(t, int64(headerSize), damage.Offset)
	})
}

// logOf is a log of one frame with this body.
func logOf(body []byte) []byte {
	h := header{format: format, id: 1, first: 1}
	log := h.append(nil)
	log = head{kindFrame, 1, uint64(len(body)), crc32.Update(h.seed(), castagnoli, body), h.seed()}.append(log)
	return appendMark(append(log, body...), 1, h.seed())
}
