package statemachine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// walk is a host that takes every action at random and keeps what a store would keep.
type walk struct {
	limits  Limits
	stream  *Stream
	stored  Image // of the last completed checkpoint, made by applying deltas
	saving  *Image
	number  uint64
	highest uint64 // watermark ever committed
}

func drawLimits(t *rapid.T) Limits {
	return Limits{
		QueueCapacity: rapid.IntRange(1, 6).Draw(t, "queue capacity"),
		QueueBytes:    rapid.SampledFrom([]int64{0, 5}).Draw(t, "queue bytes"),
		Ahead:         rapid.Uint64Range(1, 8).Draw(t, "ahead"), History: rapid.IntRange(0, 8).Draw(t, "history"),
		MaxCheckpoints: 2, MaxNacks: 2,
		KeepPayloads: rapid.Bool().Draw(t, "keep payloads"), Sparse: rapid.Bool().Draw(t, "sparse"),
	}
}

func (w *walk) receive(t *rapid.T) {
	id := rapid.Uint64Range(w.stream.Committed(), w.stream.Received()+3).Draw(t, "id")
	sum := rapid.Uint64Range(0, 1).Draw(t, "sum")
	want := w.stream.ReceiveReply(id, sum)
	require.Equal(t, want, w.stream.Receive(Batch{ID: id, Digest: sum, Records: 1, Payload: []byte{byte(id), byte(sum)}}))
}

func (w *walk) snapshot(t *rapid.T) {
	if w.saving != nil {
		t.Skip("a checkpoint is being saved")
	}
	w.number++
	w.stream.Snapshot(w.number)
	w.saving = new(Image)
	w.stream.Image(w.saving)
	delta := w.stream.AppendDelta(nil)
	applied := cloneImage(w.stored)
	require.NoError(t, applied.Apply(delta))
	require.Equal(t, plainImage(*w.saving), plainImage(applied), "Apply(old, delta) is not the image")
	changed := !sameButEpoch(w.stored, *w.saving) || w.saving.Watermark > w.stream.Committed()
	require.Equal(t, changed, w.stream.Dirty(), "stored %+v now %+v", w.stored, *w.saving)
}

func (w *walk) complete(t *rapid.T) {
	if w.saving == nil {
		t.Skip("no checkpoint is being saved")
	}
	w.stream.Complete(w.number)
	w.stored, w.saving = *w.saving, nil
	require.Equal(t, w.stored.Watermark, w.stream.Committed())
}

func (w *walk) restore(t *rapid.T) {
	if rapid.Bool().Draw(t, "other limits") {
		w.limits = drawLimits(t)
	}
	image := cloneImage(w.stored)
	s, err := Restore(&w.limits, &image)
	require.NoError(t, err)
	w.stream, w.saving, w.number = s, nil, 0
	require.Equal(t, w.stored.Watermark, s.Committed())
}

// deliver are the actions between queue and sink.
func (w *walk) deliver() map[string]func(*rapid.T) {
	guard := func(can bool, do func()) func(*rapid.T) {
		return func(t *rapid.T) {
			if !can {
				t.Skip("not possible")
			}
			do()
		}
	}
	return map[string]func(*rapid.T){
		"Emit": func(t *rapid.T) {
			n := rapid.IntRange(1, 3).Draw(t, "n")
			guard(w.stream.CanEmit(n), func() { w.stream.Emit(n) })(t)
		},
		"Settle": func(t *rapid.T) {
			n := rapid.IntRange(0, 3).Draw(t, "n")
			guard(w.stream.CanSettle(n), func() { w.stream.Settle(n) })(t)
		},
		"Rollback": func(t *rapid.T) {
			c := uint64(0)
			if w.saving != nil && rapid.Bool().Draw(t, "keep") {
				c = w.number
			}
			guard(w.stream.CanRollback(c), func() {
				w.stream.Rollback(c)
				if c == 0 {
					w.saving = nil
				}
			})(t)
		},
		"Resume": func(t *rapid.T) { guard(w.stream.CanResume(), w.stream.Resume)(t) },
	}
}

// TestWalk takes random actions, restarts included, and checks Sound, the law of deltas and Dirty.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &walk{limits: drawLimits(t)}
		w.stream = New(&w.limits)
		w.stream.Anchor(rapid.Uint64Range(1, 3).Draw(t, "anchor"))
		w.stream.Image(&w.stored) // an anchor is stored at once
		actions := w.deliver()
		actions["Receive"], actions["ReceiveMore"] = w.receive, w.receive
		actions["Snapshot"], actions["Complete"], actions["Restore"] = w.snapshot, w.complete, w.restore
		actions["Abort"] = func(*rapid.T) { w.stream.Abort(w.number); w.saving = nil }
		actions["Rebase"] = func(t *rapid.T) {
			w.stream.Rebase(rapid.Uint64Range(1, w.stream.Received()+2).Draw(t, "first"))
		}
		actions["Skip"] = func(t *rapid.T) {
			if id := rapid.Uint64Range(1, w.stream.Received()+3).Draw(t, "id"); w.stream.CanSkip(id) {
				w.stream.Skip(id)
			}
		}
		actions[""] = func(t *rapid.T) {
			if w.stream.Held(); w.stream.limits == &w.limits {
				require.NoError(t, soundWithin(w))
			}
			require.GreaterOrEqual(t, w.stream.Committed(), w.highest, "the watermark fell")
			w.highest = w.stream.Committed()
		}
		t.Repeat(actions)
	})
}

// soundWithin is Sound, but for what an image may hold above limits that became smaller.
func soundWithin(w *walk) error {
	if uint64(w.stream.digests.len()) > uint64(w.limits.History)+w.limits.Ahead {
		return w.stream.soundNumbers()
	}
	return w.stream.Sound()
}

func cloneImage(img Image) Image {
	img.Queue, img.Missing, img.Digests = slices.Clone(img.Queue), slices.Clone(img.Missing), slices.Clone(img.Digests)
	return img
}

// plainImage makes empty lists equal to absent ones.
func plainImage(img Image) Image {
	img.Queue, img.Missing, img.Digests = append([]Batch{}, img.Queue...), append([]Range{}, img.Missing...), append([]Digest{}, img.Digests...)
	return img
}

func sameButEpoch(a, b Image) bool {
	a.Epoch = b.Epoch
	return equalImages(plainImage(a), plainImage(b))
}

func equalImages(a, b Image) bool {
	return a.Epoch == b.Epoch && a.Anchored == b.Anchored && a.Watermark == b.Watermark && a.Received == b.Received &&
		slices.Equal(a.Missing, b.Missing) && slices.Equal(a.Digests, b.Digests) &&
		slices.EqualFunc(a.Queue, b.Queue, func(x, y Batch) bool { return x.ID == y.ID && x.Digest == y.Digest })
}
