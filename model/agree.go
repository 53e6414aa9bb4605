package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

// agree compares all that can be seen of the two without changing them, and checks the invariants of the
// specification on the model.
func (w *twin) agree(lost set) error {
	if err := w.sameCommits(); err != nil || w.depth == answers {
		return err
	}
	err := w.model.Sound()
	if err == nil && !w.limits.Sparse {
		err = w.model.Accounted(lost)
	}
	if err != nil {
		return fmt.Errorf("the specification: %w", err)
	}
	for _, check := range []func() error{w.sameImage, w.sameState, w.sameGuards, w.sameSession, w.sameNextLife, w.sameLoaded} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// near is the numbers around what the stream speaks of now: from just below its watermark to just above the highest.
func (w *twin) near() (list []uint64) {
	const around, most = 2, 32
	first := w.model.committed - min(w.model.committed, around-1)
	for id := first; id <= w.model.received+around && id-first < most; id++ {
		list = append(list, id)
	}
	return list
}

func (w *twin) sameCommits() error {
	for _, id := range w.near() {
		want, got := answer(w.model.Commit(id)), answer(w.machine.Commit(id))
		if err := w.differ(want, got, "Commit(%d)", id); err != nil {
			return err
		}
	}
	return nil
}

func (w *twin) sameImage() error {
	var want, got statemachine.Image
	w.model.Image(&want)
	w.machine.Image(&got)
	if err := differentImages("Image", &want, &got); err != nil {
		return err
	}
	if err := w.differ(strconv.FormatBool(w.model.Dirty(&w.known)), strconv.FormatBool(w.machine.Dirty()), "Dirty"); err != nil {
		return err
	}
	if _, makes := w.machine.(differential); !makes {
		return nil
	}
	applied, err := w.applied()
	if err == nil {
		err = differentImages("the image by its delta", &want, &applied)
	}
	return err
}

func differentImages(what string, want, got *statemachine.Image) error {
	if !sameImage(want, got) {
		return fmt.Errorf("%s: %s", what, differences(imageFields, FormatImage(want), FormatImage(got)))
	}
	if a, b := withPayloads(want.Queue), withPayloads(got.Queue); a != b {
		return fmt.Errorf("%s: want payloads %s, got %s", what, a, b)
	}
	return nil
}

func differentStates(what string, want, got *statemachine.State) error {
	if !sameStream(want, got) {
		return fmt.Errorf("%s: %s", what, differences(streamFields, FormatStream(want), FormatStream(got)))
	}
	return nil
}

// applied is the image that a delta makes of the one known.
func (w *twin) applied() (statemachine.Image, error) {
	img := cloneImage(&w.known)
	err := img.Apply(w.machine.(differential).AppendDelta(nil))
	return img, err
}

func (w *twin) sameState() error {
	if m, can := w.machine.(interface{ Sound() error }); can {
		if err := m.Sound(); err != nil {
			return err
		}
	}
	m, exact := w.machine.(Exact)
	if !exact {
		return nil
	}
	var want, got statemachine.State
	w.model.State(&want)
	m.State(&got)
	return differentStates("State", &want, &got)
}

func (w *twin) sameGuards() error {
	m, guards := w.machine.(Guarded)
	if !guards {
		return nil
	}
	want := says(w.model.CanAnchor(), w.model.CanResume())
	got := says(m.CanAnchor(), m.CanResume())
	for n := range w.model.Held() + 2 {
		want += says(w.model.CanEmit(n), w.model.CanSettle(n))
		got += says(m.CanEmit(n), m.CanSettle(n))
	}
	for c := w.model.last - min(w.model.last, 3); c <= w.model.last+1; c++ {
		want += says(w.model.CanRollback(c), w.model.CanSnapshot(c))
		got += says(m.CanRollback(c), m.CanSnapshot(c))
	}
	return w.differ(want, got, "Can…")
}

func says(can ...bool) string {
	text := " "
	for _, yes := range can {
		text += truth(yes)
	}
	return text
}

func (w *twin) sameSession() error {
	if _, isShipped := w.machine.(*statemachine.Stream); w.link == nil || !isShipped {
		return nil
	}
	var want, got statemachine.SessionState
	w.link.model.State(&want)
	w.link.shipped.State(&got)
	if err := w.differ(fmt.Sprint(want), fmt.Sprint(got), "Session"); err != nil {
		return err
	}
	for _, id := range w.near() {
		wantCopy, gotCopy := w.link.model, statemachine.Session{}
		gotCopy.CopyFrom(&w.link.shipped)
		want, got := answer(wantCopy.Commit(w.model, id)), answer(gotCopy.Commit(w.machine.(*statemachine.Stream), id))
		if err := w.differ(want, got, "Session.Commit(%d)", id); err != nil {
			return err
		}
	}
	return nil
}

// sameNextLife: what would be restored from the image of now is what the specification restores.
func (w *twin) sameNextLife() error {
	var img, again statemachine.Image
	w.model.Image(&img)
	next := twin{maker: w.maker}
	if err := next.Restore(w.limits, &img); err != nil {
		return err
	}
	if err := next.sameState(); err != nil {
		return fmt.Errorf("restored: %w", err)
	}
	next.machine.Image(&again)
	want := cloneImage(&img)
	want.Epoch++
	if err := differentImages("the image of the next life", &want, &again); err != nil {
		return err
	}
	return w.differ(strconv.FormatBool(next.model.Dirty(&img)), strconv.FormatBool(next.machine.Dirty()), "Dirty of the next life")
}

// sameLoaded: a machine put into the state of now is in this state.
func (w *twin) sameLoaded() error {
	if w.load == nil {
		return nil
	}
	var want, got statemachine.State
	w.model.State(&want)
	m, err := w.load(w.limits, &want)
	if err != nil {
		return fmt.Errorf("Load: %w", err)
	}
	m.State(&got)
	return differentStates("Load", &want, &got)
}

// withPayloads is a sequence of batches as text, payloads included.
func withPayloads(batches []statemachine.Batch) string {
	words := make([]string, len(batches))
	for i, b := range batches {
		words[i] = fmt.Sprintf("%d:%x:%d:%q", b.ID, b.Digest, b.Records, b.Payload)
	}
	return "[" + strings.Join(words, " ") + "]"
}

func cloneImage(img *statemachine.Image) statemachine.Image {
	copied := *img
	copied.Queue, copied.Missing, copied.Digests = slices.Clone(img.Queue), slices.Clone(img.Missing), slices.Clone(img.Digests)
	return copied
}
