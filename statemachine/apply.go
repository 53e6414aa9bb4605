package statemachine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// ErrDelta is wrapped by every error of [Image.Apply]: the bytes are no delta of this image.
var ErrDelta = errors.New("not a delta of this image")

// Apply changes the image by a delta that [Stream.AppendDelta] made from it, or by a whole one from
// any image. On an error, which wraps [ErrDelta], the image is undefined and must be thrown away;
// that the numbers in it make sense is for [Restore] to say. Memory is bounded by the bytes given.
// Payloads alias delta.
func (img *Image) Apply(delta []byte) error {
	r := deltaReader{rest: delta}
	if f := r.uvarint("format"); r.err == nil && f != deltaFormat {
		return fmt.Errorf("%w: format %d, allowed is %d", ErrDelta, f, deltaFormat)
	}
	flags := r.uvarint("flags")
	if flags > deltaWhole|deltaAnchored {
		r.fail("flags", "are %d, allowed is at most %d", flags, deltaWhole|deltaAnchored)
	}
	if flags&deltaWhole != 0 {
		*img = Image{}
	}
	img.Anchored = flags&deltaAnchored != 0
	img.Epoch, img.Watermark, img.Received = r.uvarint("epoch"), r.uvarint("watermark"), r.uvarint("received")
	forgotten := r.uvarint("forgotten")
	r.digests(img)
	img.forget(forgotten) // after the new ones: with a short history some of them are forgotten already
	r.ranges(img)
	r.queue(img)
	if r.err == nil && len(r.rest) > 0 {
		r.fail("end", "%d bytes are left over", len(r.rest))
	}
	return r.err
}

func (img *Image) forget(high uint64) {
	i, found := slices.BinarySearchFunc(img.Digests, high, compareDigest)
	if found {
		i++
	}
	img.Digests = img.Digests[i:]
}

func compareDigest(d Digest, id uint64) int {
	switch {
	case d.ID < id:
		return -1
	case d.ID > id:
		return 1
	default:
		return 0
	}
}

// remember puts a digest in its place, over an older one of the same number.
func (img *Image) remember(d Digest) {
	if n := len(img.Digests); n == 0 || img.Digests[n-1].ID < d.ID {
		img.Digests = append(img.Digests, d)
		return
	}
	i, found := slices.BinarySearchFunc(img.Digests, d.ID, compareDigest)
	if found {
		img.Digests[i] = d
	} else {
		img.Digests = slices.Insert(img.Digests, i, d)
	}
}

// deltaReader takes a delta apart; after the first fault it yields zeros, and err says what it was.
type deltaReader struct {
	rest []byte
	err  error
}

func (r *deltaReader) fail(what, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s: %s", ErrDelta, what, fmt.Sprintf(format, args...))
		r.rest = nil
	}
}

func (r *deltaReader) uvarint(what string) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail(what, "no number, %d bytes are left", len(r.rest))
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads how many items of at least size bytes follow, and refuses more than the rest can hold.
func (r *deltaReader) count(what string, size int) int {
	n := r.uvarint(what)
	if n > uint64(len(r.rest)/size) {
		r.fail(what, "count is %d, the rest holds at most %d", n, len(r.rest)/size)
		return 0
	}
	return int(n)
}

func (r *deltaReader) bytes(what string, n int) []byte {
	if n > len(r.rest) {
		r.fail(what, "%d bytes, the rest is %d", n, len(r.rest))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *deltaReader) digests(img *Image) {
	for {
		n := r.uvarint("digests")
		if n == 0 {
			return
		}
		id := r.uvarint("digests")
		if n > uint64(len(r.rest)/8) || id > MaxNumber {
			r.fail("digests", "run of %d from %d, the rest holds at most %d", n, id, len(r.rest)/8)
			return
		}
		img.Digests = slices.Grow(img.Digests, int(n))
		for ; n > 0; n-- {
			img.remember(Digest{id, binary.LittleEndian.Uint64(r.bytes("digests", 8))})
			id++
		}
	}
}

func (r *deltaReader) ranges(img *Image) {
	img.Missing = img.Missing[:0]
	last := uint64(0)
	for n := r.count("missing", 2); n > 0; n-- {
		first := last + r.uvarint("missing")
		last = first + r.uvarint("missing")
		img.Missing = append(img.Missing, Range{first, last})
	}
}

func (r *deltaReader) queue(img *Image) {
	dropped := r.uvarint("queue")
	if dropped > uint64(len(img.Queue)) {
		r.fail("queue", "drops %d of %d batches", dropped, len(img.Queue))
		return
	}
	img.Queue = img.Queue[dropped:]
	for n := r.count("queue", 11); n > 0; n-- {
		b := Batch{ID: r.uvarint("queue")}
		if sum := r.bytes("queue", 8); sum != nil {
			b.Digest = binary.LittleEndian.Uint64(sum)
		}
		b.Records = int(r.uvarint("queue"))
		b.Payload = r.bytes("queue", r.count("queue", 1))
		img.Queue = append(img.Queue, b)
	}
}
