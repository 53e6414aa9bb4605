package fuzz

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// draw takes choices out of bytes that the fuzzer gives, so that it can change one of them at a time. When they are
// used up every choice is the first.
type draw struct{ rest []byte }

func (d *draw) byte() byte {
	if len(d.rest) == 0 {
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

// bytes are the next n bytes, fewer at the end.
func (d *draw) bytes(n int) []byte {
	n = min(n, len(d.rest))
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// below is a number from 0 to n-1; 0 when n is 0.
func (d *draw) below(n int) int {
	if n < 1 {
		return 0
	}
	return (int(d.byte())<<8 | int(d.byte())) % n
}

// pieces cuts the bytes into one to five parts.
func (d *draw) pieces(whole []byte) (parts [][]byte) {
	var cuts []int
	for range d.below(5) {
		cuts = append(cuts, d.below(len(whole)+1))
	}
	slices.Sort(cuts)
	before := 0
	for _, cut := range append(cuts, len(whole)) {
		parts = append(parts, whole[before:cut])
		before = cut
	}
	return parts
}

// change makes up to four changes to a copy of the bytes: another value, a byte less, a byte more, or the end cut off.
func (d *draw) change(whole []byte) []byte {
	b := bytes.Clone(whole)
	for range d.below(5) {
		at := d.below(len(b) + 1)
		switch kind := d.byte() % 4; {
		case kind == 0:
			b = slices.Insert(b, at, d.byte())
		case at == len(b):
		case kind == 1:
			b[at] = d.byte()
		case kind == 2:
			b = slices.Delete(b, at, at+1)
		default:
			b = b[:at]
		}
	}
	return b
}

// damage does to a copy of the bytes what a disk does: bits that changed, stretches that read as zeros, the end missing.
func (d *draw) damage(whole []byte) []byte {
	b := bytes.Clone(whole)
	for range d.below(5) {
		at := d.below(len(b))
		switch d.byte() % 4 {
		case 0, 1:
			if len(b) > 0 {
				b[at] ^= d.byte()
			}
		case 2:
			clear(b[at:min(len(b), at+int(d.byte()))])
		default:
			b = b[:at]
		}
	}
	return b
}

// swap puts a piece of the bytes in another place, takes one out, or repeats one.
func (d *draw) swap(whole []byte) []byte {
	from := d.below(len(whole) + 1)
	to := from + d.below(len(whole)-from+1)
	piece, at := whole[from:to], d.below(len(whole)+1)
	switch d.byte() % 4 {
	case 0:
		return slices.Concat(whole[:from], whole[to:])
	case 1:
		return slices.Concat(whole[:at], piece, whole[at:])
	case 2:
		b := bytes.Clone(whole)
		copy(b[at:], piece)
		return b
	default:
		return bytes.Clone(whole)
	}
}

// memoryDir is a folder of its own in memory where there is such a place: nothing here is about a disk, and waiting for
// one takes most of the time.
func memoryDir(t testing.TB) string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "tidemark-fuzz-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
