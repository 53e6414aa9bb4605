package model

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"testing"
	"time"

	fuzz "github.com/google/gofuzz"
	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

var gofuzzSeed = flag.Int64("gofuzz.seed", 0, "seed of one structured input; 0: others each time")

// fuzzed gives a property many inputs. It tells whether the property had something to say about an input; one that
// never has shows nothing.
func fuzzed(t *testing.T, property func(f *fuzz.Fuzzer) (bool, error)) {
	t.Helper()
	first, times, telling := *gofuzzSeed, int64(1), 0
	if first == 0 {
		first, times = time.Now().UnixNano(), 1500
	}
	for seed := first; seed < first+times; seed++ {
		f := fuzz.NewWithSeed(seed).NilChance(0.1).NumElements(0, 6).Funcs(fuzzBatch, fuzzRange, fuzzDigest, fuzzImage, fuzzParts)
		told, err := guard(property, f)
		if err != nil {
			t.Fatalf("%v\nrepeat it with: go test ./model -run '^%s$' -gofuzz.seed=%d", err, t.Name(), seed)
		}
		if told {
			telling++
		}
	}
	t.Logf("%d of %d inputs told something", telling, times)
	if times > 1 {
		require.Greater(t, telling, 100)
	}
}

func guard(property func(f *fuzz.Fuzzer) (bool, error), f *fuzz.Fuzzer) (told bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return property(f)
}

// anyNumber is near others, so that they meet; now and then it is any.
func anyNumber(c fuzz.Continue) uint64 {
	switch c.Intn(20) {
	case 0:
		return c.Uint64()
	case 1:
		return uint64(statemachine.MaxNumber) + 1 - uint64(c.Intn(4))
	default:
		return uint64(c.Intn(12))
	}
}

func fuzzBatch(b *statemachine.Batch, c fuzz.Continue) {
	b.ID, b.Digest, b.Records = anyNumber(c), c.Uint64()%3, c.Intn(4)
	c.Fuzz(&b.Payload)
}

func fuzzRange(r *statemachine.Range, c fuzz.Continue) {
	r.First = anyNumber(c)
	r.Last = r.First + uint64(c.Intn(4)) - uint64(c.Intn(2))
}

func fuzzDigest(d *statemachine.Digest, c fuzz.Continue) { d.ID, d.Sum = anyNumber(c), c.Uint64() }

// fuzzImage is often right: half of them end in what a stream with these numbers could have left behind.
func fuzzImage(img *statemachine.Image, c fuzz.Continue) {
	img.Epoch, img.Anchored = anyNumber(c), c.Intn(4) > 0
	img.Watermark, img.Received = anyNumber(c), anyNumber(c)
	c.Fuzz(&img.Queue)
	c.Fuzz(&img.Missing)
	c.Fuzz(&img.Digests)
	if c.RandBool() {
		return
	}
	img.Anchored, img.Received = true, img.Watermark+uint64(len(img.Queue))
	for i := range img.Queue {
		img.Queue[i].ID, img.Queue[i].Records = img.Received-uint64(i), 1+c.Intn(3)
	}
	img.Missing = nil
	for i := range img.Digests {
		img.Digests[i].ID = uint64(i) + 1
	}
}

// roomy are limits that no image here exceeds.
var roomy = statemachine.Limits{QueueCapacity: 100, Ahead: 100, History: math.MaxInt, MaxCheckpoints: 1, MaxNacks: 1, KeepPayloads: true}

// TestFuzzedImages: Restore refuses an image, or makes a sound stream that leaves the same image behind, and its bytes
// are this image.
func TestFuzzedImages(t *testing.T) {
	fuzzed(t, func(f *fuzz.Fuzzer) (bool, error) {
		var img, again, decoded statemachine.Image
		f.Fuzz(&img)
		given := cloneImage(&img)
		s, err := statemachine.Restore(&roomy, &given)
		if err != nil {
			return false, nil
		}
		img.Epoch++
		s.Image(&again)
		return true, errors.Join(s.Sound(), differentImages("the next image", &img, &again),
			decoded.Apply(s.AppendDelta(nil)), differentImages("decoded", &img, &decoded))
	})
}

// TestFuzzedDeltas: Apply refuses a delta and says so, or makes an image no larger than its bytes, which Restore refuses
// or makes a sound stream of.
func TestFuzzedDeltas(t *testing.T) {
	fuzzed(t, func(f *fuzz.Fuzzer) (bool, error) {
		var img statemachine.Image
		var delta fuzzDelta
		f.Fuzz(&img)
		f.Fuzz(&delta)
		size := len(img.Digests) + len(img.Missing) + len(img.Queue) + len(delta.bytes())
		if err := img.Apply(delta.bytes()); err != nil {
			if !errors.Is(err, statemachine.ErrDelta) {
				return false, fmt.Errorf("not ErrDelta: %w", err)
			}
			return false, nil
		}
		if got := len(img.Digests) + len(img.Missing) + len(img.Queue); got > size {
			return false, fmt.Errorf("%d entries from %d", got, size)
		}
		s, err := statemachine.Restore(&roomy, &img)
		if err != nil {
			return false, nil
		}
		return true, s.Sound()
	})
}

// fuzzDelta is the parts of a delta, as docs of statemachine/delta.go have them.
type fuzzDelta struct {
	Format, Flags uint8
	Head          [4]uint8
	Runs          [][]uint64
	Missing       [][2]uint8
	Dropped       uint8
	Added         []statemachine.Batch
	Lie           uint8 // now and then a count says more than there is
	Cut           uint8
}

// fuzzParts are any, or those of an image some stream left behind, or these with one number changed.
func fuzzParts(d *fuzzDelta, c fuzz.Continue) {
	c.FuzzNoCustom(d)
	if c.Intn(4) == 0 {
		return
	}
	w := uint8(len(d.Runs))
	*d = fuzzDelta{Flags: 3, Head: [4]uint8{0, w, w + uint8(len(d.Added)), 0}, Runs: d.Runs[:min(len(d.Runs), 1)], Added: d.Added}
	for i := range d.Runs {
		d.Runs[i] = append([]uint64{1}, d.Runs[i][:min(len(d.Runs[i]), int(w)-1)]...)
	}
	for i := range d.Added {
		d.Added[i].ID, d.Added[i].Records = uint64(w)+uint64(i)+1, 1
	}
	if c.RandBool() {
		c.Fuzz(&d.Head[c.Intn(len(d.Head))])
	}
}

func (d *fuzzDelta) bytes() []byte {
	lie := func(n int) uint64 { return uint64(n) + uint64(d.Lie)/200*uint64(d.Lie) }
	out := []byte{1 + d.Format/250, d.Flags % 4}
	for _, v := range d.Head {
		out = binary.AppendUvarint(out, uint64(v%16))
	}
	for _, sums := range d.Runs {
		if len(sums) == 0 {
			continue
		}
		out = binary.AppendUvarint(out, lie(len(sums)))
		out = binary.AppendUvarint(out, sums[0]%16)
		for _, sum := range sums {
			out = binary.LittleEndian.AppendUint64(out, sum)
		}
	}
	out = binary.AppendUvarint(out, 0)
	out = binary.AppendUvarint(out, lie(len(d.Missing)))
	for _, r := range d.Missing {
		out = append(out, r[0]%8, r[1]%4)
	}
	out = binary.AppendUvarint(out, uint64(d.Dropped%2))
	out = binary.AppendUvarint(out, lie(len(d.Added)))
	for _, b := range d.Added {
		out = binary.AppendUvarint(out, b.ID)
		out = binary.LittleEndian.AppendUint64(out, b.Digest)
		out = binary.AppendUvarint(out, uint64(b.Records))
		out = binary.AppendUvarint(out, lie(len(b.Payload)))
		out = append(out, b.Payload...)
	}
	return out[:len(out)-int(d.Cut)/240*min(len(out), int(d.Cut%16))]
}

// TestFuzzedBatches: whatever numbers a collector sends, in whatever order, the machine says what the model says.
func TestFuzzedBatches(t *testing.T) {
	fuzzed(t, func(f *fuzz.Fuzzer) (bool, error) {
		var batches []statemachine.Batch
		var anchor statemachine.Range
		f.NumElements(1, 12).Fuzz(&batches)
		f.Fuzz(&anchor)
		h := host{twin: twin{maker: shipped()}}
		if err := h.fresh(roomy); err != nil {
			return false, err
		}
		if err := h.anchor(anchor.First); err != nil {
			return false, nil // a number that no anchor has
		}
		for _, b := range batches {
			b.Records++ // a host takes no batch without one
			if _, err := h.receive(b); err != nil {
				return true, err
			}
			if err := h.verify(); err != nil {
				return true, err
			}
		}
		return true, nil
	})
}
