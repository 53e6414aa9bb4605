package model

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// walk is a host that takes every action at random, as lines of a script.
type walk struct {
	host
	lines []string
	wrong error
	over  bool // a walk that looks at promises alone ends where the machine panics, or is too far from the model
}

// variant is one of the four kinds of stream.
type variant struct {
	name                 string
	keepPayloads, sparse bool
}

var variants = []variant{{"dense", false, false}, {"dense-full", true, false}, {"sparse", false, true}, {"sparse-full", true, true}}

// start draws limits and begins a stream. Lasting ones are fit for a real host, whose history covers the window.
func (w *walk) start(t *rapid.T, v variant, lasting bool) {
	ahead, least := rapid.IntRange(1, 16).Draw(t, "ahead"), 0
	if lasting {
		least = ahead
	}
	w.take("new queue-capacity=%d queue-bytes=%d ahead=%d history=%d max-checkpoints=%d max-nacks=%d keep-payloads=%t sparse=%t",
		rapid.IntRange(1, 8).Draw(t, "queue capacity"), rapid.SampledFrom([]int{0, 0, 20}).Draw(t, "queue bytes"), ahead,
		rapid.IntRange(least, 24).Draw(t, "history"), rapid.IntRange(1, 4).Draw(t, "max checkpoints"), rapid.IntRange(1, 2).Draw(t, "max nacks"),
		v.keepPayloads, v.sparse)
}

// take runs a line and keeps the first thing that is wrong.
func (w *walk) take(format string, args ...any) {
	if w.wrong != nil || w.over {
		return
	}
	line := fmt.Sprintf(format, args...)
	w.lines = append(w.lines, line)
	_, err := w.step(line)
	if err == nil {
		err = w.verify()
	}
	switch {
	case w.depth == promised && (errors.As(err, new(machinePanic)) || errors.As(err, new(impossible))):
		w.over = true
	default:
		w.wrong = err
	}
}

// failure is what went wrong and the script that shows it, or nil.
func (w *walk) failure() error {
	if w.wrong == nil {
		return nil
	}
	return after(w.wrong, w.lines)
}

// action is one step of a walk, named as in the specification.
type action struct {
	name string
	can  func(*walk) bool
	take func(*walk, *rapid.T)
}

// actions are all there are; rapid takes those in front oftener, and shrinks to them.
var actions = []action{
	{"Receive", anchored, func(w *walk, _ *rapid.T) { w.take("receive next") }},
	{"Emit", func(w *walk) bool { return w.model.CanEmit(1) }, func(w *walk, t *rapid.T) {
		w.take("emit %d", rapid.IntRange(1, len(w.model.queue)).Draw(t, "n"))
	}},
	{"Settle", func(w *walk) bool { return w.model.CanSettle(1) }, func(w *walk, t *rapid.T) {
		w.take("settle %d", rapid.IntRange(1, len(w.model.inflight)).Draw(t, "n"))
	}},
	{"Snapshot", anchored, func(w *walk, _ *rapid.T) { w.take("snapshot") }},
	{"Complete", begun, func(w *walk, t *rapid.T) { w.take("complete %d", w.drawSealed(t)) }},
	{"ReceiveAny", anchored, (*walk).receiveAny},
	{"Deliver", always, func(w *walk, _ *rapid.T) { w.deliver() }},
	{"RollbackOpen", func(w *walk) bool { return len(w.kept()) > 0 }, func(w *walk, t *rapid.T) {
		w.take("rollback %d", rapid.SampledFrom(w.kept()).Draw(t, "kept"))
	}},
	{"Restore", always, func(w *walk, t *rapid.T) {
		w.take("restore queue-capacity=%d", rapid.IntRange(1, 8).Draw(t, "queue capacity"))
	}},
	{"Nack", func(w *walk) bool { return w.model.CanSettle(0) }, func(w *walk, _ *rapid.T) { w.take("settle 0") }},
	{"Rollback", func(w *walk) bool { return w.model.CanRollback(0) && !w.owed(0) }, func(w *walk, _ *rapid.T) { w.take("rollback") }},
	{"Save", begun, func(w *walk, t *rapid.T) { w.take("save %d", w.drawSealed(t)) }},
	{"CompleteLate", func(w *walk) bool { return len(w.saved) > 0 }, func(w *walk, t *rapid.T) {
		w.take("complete %d", rapid.SampledFrom(sorted(w.saved)).Draw(t, "checkpoint"))
	}},
	{"Resume", func(w *walk) bool { return w.model.CanResume() }, func(w *walk, _ *rapid.T) { w.take("resume") }},
	{"Abort", begun, func(w *walk, t *rapid.T) { w.take("abort %d", w.drawSealed(t)) }},
	{"Connect", func(w *walk) bool { return w.link == nil }, func(w *walk, _ *rapid.T) { w.take("connect") }},
	{"Commit", always, func(w *walk, t *rapid.T) { w.take("commit %d", w.drawID(t)) }},
	{"Rebase", anchored, func(w *walk, t *rapid.T) {
		first := rapid.Uint64Range(1, w.model.received+3).Draw(t, "first")
		w.take("lost %d", first)
		w.take("rebase %d", first)
	}},
	{"Skip", anchored, func(w *walk, t *rapid.T) {
		if id := w.drawID(t); w.model.CanSkip(id) {
			w.take("skip %d", id)
		}
	}},
	{"Deny", connected, func(w *walk, t *rapid.T) { w.take("refuse %d", w.drawID(t)) }},
	{"Disconnect", connected, func(w *walk, _ *rapid.T) { w.take("disconnect") }},
	{"Anchor", func(w *walk) bool { return w.model.CanAnchor() }, func(w *walk, t *rapid.T) {
		w.take("anchor %d", rapid.IntRange(1, 3).Draw(t, "id"))
	}},
}

func always(*walk) bool      { return true }
func anchored(w *walk) bool  { return w.model.anchored }
func begun(w *walk) bool     { return len(w.sealed) > 0 }
func connected(w *walk) bool { return w.link != nil }

// repeats times the steps of rapid is the length of a walk: what goes wrong with several checkpoints open takes some.
const repeats = 2

// repeat takes actions until rapid has enough; after something is wrong they do nothing.
func (w *walk) repeat(t *rapid.T) error {
	if w.wrong != nil {
		return w.failure()
	}
	if rapid.IntRange(0, 9).Draw(t, "anchor later") < 9 {
		w.take("anchor %d", rapid.IntRange(1, 3).Draw(t, "first"))
	}
	step := map[string]func(*rapid.T){"step": func(t *rapid.T) {
		possible := slices.DeleteFunc(slices.Clone(actions), func(a action) bool { return !a.can(w) })
		possible[rapid.IntRange(0, len(possible)-1).Draw(t, "action")].take(w, t)
	}}
	for range repeats {
		t.Repeat(step)
	}
	return w.failure()
}

// drawSealed is a checkpoint that began and is not stored.
func (w *walk) drawSealed(t *rapid.T) uint64 {
	return w.sealed[rapid.IntRange(0, len(w.sealed)-1).Draw(t, "which")].number
}

// kept is the open checkpoints that a rollback may keep: what is durable and not yet heard of it never takes back.
func (w *walk) kept() (open []uint64) {
	for _, c := range sorted(w.model.checkpoints) {
		if w.model.CanRollback(c) && !w.owed(c) {
			open = append(open, c)
		}
	}
	return open
}

// drawID is a number near those the stream speaks of.
func (w *walk) drawID(t *rapid.T) uint64 {
	return rapid.Uint64Range(max(w.model.committed, 2)-1, w.model.received+4).Draw(t, "id")
}

// receiveAny is any number, now and then with another body than its own.
func (w *walk) receiveAny(t *rapid.T) {
	id := w.drawID(t)
	if rapid.IntRange(0, 3).Draw(t, "body") == 3 {
		w.take("receive %d body=other", id)
	} else {
		w.take("receive %d", id)
	}
}

// drain ends all faults: a collector that does as it is told, a sink that takes all, checkpoints that complete. In the
// end everything must be acknowledged.
func (w *walk) drain() {
	w.take("disconnect")
	if w.model.CanAnchor() {
		w.take("anchor 1")
	}
	last := w.model.received
	for idle := 0; idle < 3 && last >= w.first; idle++ {
		if w.model.CanResume() {
			w.take("resume")
		}
		w.deliver()
		w.collect(last)
		w.deliver()
		before := w.told + uint64(len(w.durable))
		w.take("snapshot")
		w.take("complete")
		if w.told >= last || w.wrong != nil || w.over {
			return
		}
		if w.told+uint64(len(w.durable)) > before {
			idle = 0
		}
	}
	if last >= w.first {
		w.wrong = fmt.Errorf("faults have stopped, and %d is still answered %s", last, answer(w.machine.Commit(last)))
	}
}

func (w *walk) deliver() {
	for range 2 {
		if w.model.CanSettle(0) {
			w.take("settle")
		}
		if w.model.CanEmit(1) {
			w.take("emit")
		}
	}
}

// collect sends what the machine asks for, in order, until it takes no more.
func (w *walk) collect(last uint64) {
	for id := max(w.first, w.told+1); id <= last && w.wrong == nil && !w.over; id++ {
		reply, _ := w.machine.Commit(id)
		if word := reply.String(); word != "RESEND" && word != "RETRY" {
			continue
		}
		w.take("receive %d", id)
	}
}
