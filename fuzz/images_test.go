package fuzz

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// roomy are limits that no image here exceeds, so that a stream restored from one leaves the same behind.
var roomy = statemachine.Limits{
	QueueCapacity: math.MaxInt, Ahead: 1 << 20, History: math.MaxInt, MaxCheckpoints: 4, MaxNacks: 3, KeepPayloads: true,
}

// clone is a copy that shares payloads only.
func clone(img *statemachine.Image) *statemachine.Image {
	c := *img
	c.Queue, c.Missing, c.Digests = slices.Clone(img.Queue), slices.Clone(img.Missing), slices.Clone(img.Digests)
	return &c
}

func requireSame(t testing.TB, want, got *statemachine.Image) {
	t.Helper()
	if !same(want, got) {
		t.Fatalf("want image %+v, got %+v", *want, *got)
	}
}

func same(a, b *statemachine.Image) bool {
	return a.Epoch == b.Epoch && a.Anchored == b.Anchored && a.Watermark == b.Watermark && a.Received == b.Received &&
		slices.Equal(a.Missing, b.Missing) && slices.Equal(a.Digests, b.Digests) &&
		slices.EqualFunc(a.Queue, b.Queue, func(a, b statemachine.Batch) bool {
			return a.ID == b.ID && a.Digest == b.Digest && a.Records == b.Records && bytes.Equal(a.Payload, b.Payload)
		})
}

// checkImage: Restore refuses an image, or makes a sound stream that leaves the same image behind; and then the bytes
// of both are this image. It tells whether it is taken.
func checkImage(t testing.TB, img *statemachine.Image) bool {
	t.Helper()
	s, err := statemachine.Restore(&roomy, clone(img))
	if err != nil {
		require.ErrorContains(t, err, "image: ")
		return false
	}
	require.NoError(t, s.Sound())
	var decoded, left, next statemachine.Image
	require.NoError(t, decoded.Apply(img.AppendWhole(nil)))
	requireSame(t, img, &decoded)
	s.Image(&left)
	require.Equal(t, img.Epoch+1, left.Epoch)
	require.NoError(t, next.Apply(s.AppendDelta(nil)))
	requireSame(t, &left, &next)
	left.Epoch--
	requireSame(t, img, &left)
	return true
}

// applyAll applies one delta after the other, and tells whether all are taken.
func applyAll(t testing.TB, deltas ...[]byte) (*statemachine.Image, bool) {
	t.Helper()
	img := new(statemachine.Image)
	for _, delta := range deltas {
		if err := img.Apply(delta); err != nil {
			require.ErrorIs(t, err, statemachine.ErrDelta)
			return nil, false
		}
	}
	return img, true
}

// addEncodings gives the deltas that are kept in model/testdata, each with the one before it, and with a whole one.
func addEncodings(f *testing.F, add func(before, delta []byte)) {
	files, err := filepath.Glob("../model/testdata/encodings/format*/*.txt")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		var before []byte
		for line := range strings.Lines(string(text)) {
			if line[0] == '\t' {
				continue
			}
			delta, err := hex.DecodeString(strings.TrimSpace(line))
			require.NoError(f, err)
			add(before, delta)
			before = delta
		}
	}
}

// FuzzDelta: any bytes, and any bytes after them, are refused with ErrDelta, or make an image no larger than they are.
//
// Allocated are the lists of the image, which grow as append does: all that was allocated for one is under 5 times its
// size. A range of 16 bytes takes 2 of the delta, a batch of 48 takes 11, a digest of 16 takes 8: at most 40 a byte. An
// error is a line of text. Restore makes its own lists of these, twice, and an error shows all ranges as text.
func FuzzDelta(f *testing.F) {
	addEncodings(f, func(before, delta []byte) { f.Add(before, delta) })
	const whole = "\x01\x01\x00\x00\x00\x00" // format, flags, epoch, watermark, received, forgotten
	for _, lie := range []string{"\x80\x80\x40", "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\x02"} {
		for _, before := range []string{"", "\x00", "\x00\x00\x00", "\x00\x00\x00\x01\x0112345678\x01"} { // of digests, missing, queue, payload
			f.Add([]byte{}, []byte(whole+before+lie+"\x01"))
		}
	}
	f.Fuzz(func(t *testing.T, before, delta []byte) {
		size := len(before) + len(delta)
		for _, deltas := range [][][]byte{{before}, {delta}, {before, delta}} {
			bounded(t, size, 48, 1<<10, func() { applyAll(t, deltas...) })
			img, ok := applyAll(t, deltas...)
			if !ok {
				continue
			}
			require.LessOrEqual(t, 2*len(img.Missing)+8*len(img.Digests)+11*len(img.Queue), size)
			bounded(t, size, 256, 4<<10, func() { statemachine.Restore(&roomy, clone(img)) })
			checkImage(t, img)
		}
	})
}

// anyNumber is near others, so that they meet; now and then it is at the end of what there is.
func (d *draw) anyNumber() uint64 {
	if b := d.byte(); b < 240 {
		return uint64(b % 16)
	}
	return statemachine.MaxNumber + 3 - uint64(d.byte()%8)
}

func (d *draw) payload() []byte { return bytes.Repeat([]byte{d.byte()}, int(d.byte()%5)) }

// image is any, or, from an even first choice on, mostly one that some stream could have left behind.
func (d *draw) image() *statemachine.Image {
	img, orderly := &statemachine.Image{Epoch: d.anyNumber(), Anchored: true}, d.byte()%2 == 0
	if !orderly {
		img.Anchored, img.Watermark, img.Received = d.byte()%2 == 0, d.anyNumber(), d.anyNumber()
		for range d.byte() % 5 {
			img.Missing = append(img.Missing, statemachine.Range{First: d.anyNumber(), Last: d.anyNumber()})
		}
		for range d.byte() % 5 {
			img.Digests = append(img.Digests, statemachine.Digest{ID: d.anyNumber(), Sum: uint64(d.byte())})
		}
		for range d.byte() % 5 {
			img.Queue = append(img.Queue, statemachine.Batch{ID: d.anyNumber(), Records: int(d.byte() % 3), Payload: d.payload()})
		}
		return img
	}
	img.Watermark = d.anyNumber() / 2
	img.Received = img.Watermark
	for range d.byte() % 6 { // above the watermark come, by turns, ranges that are missing and numbers that wait
		first := img.Received + 1
		img.Received = first + uint64(d.byte()%3)
		img.Missing = append(img.Missing, statemachine.Range{First: first, Last: img.Received})
		img.Received++
		img.Queue = append(img.Queue, statemachine.Batch{ID: img.Received, Digest: uint64(d.byte()), Records: 1, Payload: d.payload()})
	}
	if len(img.Queue) > 1 && d.byte()%2 == 0 {
		slices.Reverse(img.Queue)
	}
	if len(img.Queue) > 0 && d.byte()%4 == 0 { // one that waits under the number of another, or of one that is missing
		img.Queue[d.below(len(img.Queue))].ID = img.Watermark + 1 + uint64(d.byte())%(img.Received-img.Watermark)
	}
	for id := uint64(1) + uint64(d.byte()%4); id <= img.Received && len(img.Digests) < 9; id += 1 + uint64(d.byte()%2) {
		img.Digests = append(img.Digests, statemachine.Digest{ID: id, Sum: uint64(d.byte())})
	}
	return img
}

// FuzzImage: images put together from numbers that meet. See checkImage.
func FuzzImage(f *testing.F) {
	taken := 0
	for i := range 64 {
		choices := make([]byte, 64)
		for j := range choices {
			choices[j] = byte((i + 1) * (j + 3) * 31)
		}
		if checkImage(f, (&draw{choices}).image()) {
			taken++
		}
		f.Add(choices)
	}
	require.Greater(f, taken, 16, "most seeds must be images that streams leave behind")
	f.Fuzz(func(t *testing.T, choices []byte) { checkImage(t, (&draw{choices}).image()) })
}
