package fuzz

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// walk is a stream that takes steps, beside what a store would hold of it.
type walk struct {
	*statemachine.Stream
	stored statemachine.Image
	frozen map[uint64]statemachine.Image // by open checkpoint
}

// step takes a step if it is possible.
func (w *walk) step(d *draw) {
	action, n := d.byte()%9, int(d.byte()%8)
	switch {
	case action < 2:
		id := w.Received() + uint64(n) - 2*uint64(action) // the next ones, sent again, or with a gap
		if id >= 1 && id <= statemachine.MaxNumber {
			w.Receive(statemachine.Batch{ID: id, Digest: uint64(d.byte() % 2), Records: 1, Payload: d.payload()})
		}
	case action == 2 && w.CanEmit(n):
		w.Emit(n)
	case action == 3 && w.CanSettle(n):
		w.Settle(n)
	case action == 4 && w.CanSnapshot(w.Last()+1):
		w.Snapshot(w.Last() + 1)
		var img statemachine.Image
		w.Image(&img)
		w.frozen[w.Last()] = img
	case action == 5:
		c := w.Last() - min(w.Last(), uint64(n%3))
		if img, there := w.frozen[c]; there && w.completes(c) {
			w.stored = img
		}
	case action == 6 && w.CanRollback(0):
		w.Rollback(0)
		clear(w.frozen)
	case action == 7 && n > 5 && w.Anchored() && w.Received() < statemachine.MaxNumber:
		w.Rebase(w.Received() + 1)
	case action == 8 && w.CanResume():
		w.Resume()
	}
}

// completes tells whether c was still open. It is over then, and so are those before it.
func (w *walk) completes(c uint64) bool {
	var st statemachine.State
	w.State(&st)
	open := slices.ContainsFunc(st.Checkpoints, func(m statemachine.Mark) bool { return m.Checkpoint == c })
	w.Complete(c)
	return open
}

// choose writes the choices that make a walk take these steps: from an image of nothing, receive the next number ('r'),
// with a gap ('g'), emit ('e'), settle ('s'), snapshot ('c'), complete ('C'), rollback ('b'), rebase ('B').
func choose(steps string) []byte {
	bytesOf := map[rune][]byte{
		'r': {0, 1, 0, 1, 1}, 'g': {0, 3, 1, 2, 4}, 'e': {2, 1}, 's': {3, 1}, 'c': {4, 0}, 'C': {5, 0}, 'b': {6, 0}, 'B': {7, 7},
	}
	choices := []byte{0, 0, 0, 0, 0} // the image
	for i, step := range steps {
		choices = append(choices, bytesOf[step]...)
		choices = append(choices, 0, byte(i%2), 0, byte(i), byte(i), byte(i)) // the change of the delta
	}
	return choices
}

// FuzzAppliedDelta: whatever a stream does after it was restored, the delta of each moment makes the image of its last
// completed checkpoint into that of now. A delta that was changed is refused, or makes an image that checkImage speaks
// of.
func FuzzAppliedDelta(f *testing.F) {
	for i := range 32 {
		choices := make([]byte, 200)
		for j := range choices {
			choices[j] = byte((i + 1) * (j + 7) * 13)
		}
		choices[1] = 0
		f.Add(choices, i%2 == 0, uint8(i%5))
	}
	for history := range uint8(4) {
		for _, steps := range []string{"rrescCrresres", "rrgescesCrrrBesc", "rresbrescrescCCresb", "rgcCrBcCresescC"} {
			f.Add(choose(steps), history%2 == 0, history/2)
			f.Add(choose(steps), history%2 == 0, uint8(100))
		}
	}
	f.Fuzz(func(t *testing.T, choices []byte, keep bool, history uint8) {
		d := &draw{choices}
		img := d.image()
		limits := roomy
		limits.KeepPayloads, limits.History = keep, int(history)
		s, err := statemachine.Restore(&limits, clone(img))
		if err != nil {
			return
		}
		w := walk{s, *img, map[uint64]statemachine.Image{}}
		for range min(len(d.rest)/8, 100) {
			w.step(d)
			var now statemachine.Image
			w.Image(&now)
			delta := w.AppendDelta(nil)
			got := clone(&w.stored)
			require.NoError(t, got.Apply(delta))
			requireSame(t, &now, got)
			got = clone(&w.stored)
			if hurt := d.bytes(6); got.Apply((&draw{hurt}).change(delta)) == nil {
				checkImage(t, got)
			}
		}
		require.NoError(t, s.Sound())
	})
}
