package explore

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/statemachine"
)

// invariants are those of System.tla, by name. Each says what does not hold.
var invariants = map[string]func(*expander, *world) error{
	"StreamSound":   streamSound,
	"NoLoss":        noLoss,
	"ExactlyOnce":   exactlyOnce,
	"Covered":       covered,
	"NeverResend":   func(_ *expander, w *world) error { return never(w, statemachine.Resend) },
	"NeverRetry":    func(_ *expander, w *world) error { return never(w, statemachine.Retry) },
	"NeverAllAcked": neverAllAcked,
	"Dirty":         dirty,
}

// Checked are the invariants that the explorer checks of a config: Rises, Dirty and the others that its constants
// allow. Of one that must fail it looks at those alone that it names, if any.
func (cfg *Config) Checked() []string {
	list := slices.Clone(cfg.Invariants)
	if cfg.MustFail && len(list) > 0 {
		return list
	}
	if !cfg.MustFail {
		list = []string{"StreamSound", "NoLoss", "Covered"}
		if cfg.Constants.MaxLost == 0 {
			list = append(list, "ExactlyOnce")
		}
	}
	return append(list, "Rises", "Dirty")
}

// LeftToTLC are the properties that the config names and the explorer does not check: liveness.
func (cfg *Config) LeftToTLC() []string {
	return slices.DeleteFunc(slices.Clone(cfg.Properties), func(name string) bool { return name == "Rises" })
}

// check is the first invariant that does not hold of w.
func (e *expander) check(w *world) *fault {
	for _, wrong := range e.checked {
		if f := wrong(e, w); f != nil {
			return f
		}
	}
	return nil
}

func streamSound(e *expander, w *world) error {
	if !w.up {
		return nil
	}
	s := e.streams.at(w.stream)
	if s.unsound != nil || e.Limits.Sparse {
		return s.unsound
	}
	return s.unaccounted
}

func noLoss(e *expander, w *world) error {
	for id := range (w.made &^ w.buffer).each {
		if w.durable[e.content(id, w.resets)] == 0 {
			return fmt.Errorf("batch %d left the buffer, and the sink does not have it for good", id)
		}
	}
	return nil
}

func exactlyOnce(e *expander, w *world) error {
	for i, n := range w.durable {
		if e.Transactional && n > 1 {
			return fmt.Errorf("batch %d is in the sink %d times", i/int(e.MaxResets+1)+1, n)
		}
	}
	return nil
}

func covered(e *expander, w *world) error {
	s, store := e.streams.at(w.stream), &e.images.at(w.store).image
	if w.up && s.Anchored && s.Committed > store.Watermark {
		return fmt.Errorf("committed is %d, the watermark in the store %d", s.Committed, store.Watermark)
	}
	return nil
}

// checkStep is Rises.
func (e *expander) checkStep(from, to *world) *fault {
	if to.store == from.store || to.lostStores != from.lostStores {
		return nil
	}
	before, after := e.images.at(from.store).image.Watermark, e.images.at(to.store).image.Watermark
	if after >= before {
		return nil
	}
	return &fault{"Rises", fmt.Sprintf("the watermark in the store fell from %d to %d", before, after)}
}

// dirty: the machine counts changes where Dirty of Stream.tla compares images; both must say the same
// whenever a checkpoint could begin.
func dirty(e *expander, w *world) error {
	if !w.up || w.phase != idle {
		return nil
	}
	return e.checkDirty(w.stream, w.store)
}

func (e *streamHand) checkDirty(stream, stored uint32) error {
	s := e.streams.at(stream)
	want := e.changed(stream, stored) || s.watermark > s.Committed
	if s.Anchored && s.dirty != want {
		return fmt.Errorf("the machine says %t, the image and the one in the store say %t", s.dirty, want)
	}
	return nil
}

func never(w *world, code statemachine.Reply) error {
	for _, r := range w.replies[:w.replies.len()] {
		if r.code() == code {
			return fmt.Errorf("%v is on its way", r)
		}
	}
	return nil
}

func neverAllAcked(e *expander, w *world) error {
	if w.produced == e.LastBatch && w.buffer == 0 {
		return fmt.Errorf("everything is acknowledged")
	}
	return nil
}
