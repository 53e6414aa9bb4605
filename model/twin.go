package model

import (
	"fmt"

	"github.com/tidemark/tidemark/statemachine"
)

// twin is a machine beside Sequential: each action is taken on both, and what they tell is compared. An error is a
// difference, or [impossible].
type twin struct {
	maker
	depth   depth
	limits  *statemachine.Limits
	machine Machine
	model   *Sequential
	link    *link              // nil: no connection, questions go to the stream itself
	known   statemachine.Image // of the last completed checkpoint, the one restored, or that of the anchor
}

// depth is how much of the two must be the same. What is possible is always for Sequential to say.
type depth int

const (
	everything depth = iota // all that can be seen
	answers                 // what collectors are answered and the sink is given
	promised                // nothing, but what was promised must hold
)

// link is a connection. Beside the shipped machine runs the shipped Session; before another machine the rules of the
// model decide what reaches it.
type link struct {
	model   SequentialSession
	shipped statemachine.Session
}

// impossible is an action that the specification does not allow in this state.
type impossible struct {
	action string
	arg    uint64
}

func (e impossible) Error() string {
	return fmt.Sprintf("%s(%d) is not possible in this state", e.action, e.arg)
}

// begin is Fresh.
func (w *twin) begin(limits *statemachine.Limits) (err error) {
	w.limits, w.model, w.link, w.known = limits, NewSequential(limits), nil, statemachine.Image{}
	w.model.epoch = w.born
	w.machine, err = w.fresh(limits)
	return err
}

// Restore begins a new life of both, from the same image.
func (w *twin) Restore(limits *statemachine.Limits, img *statemachine.Image) (err error) {
	given := cloneImage(img)
	if w.machine, err = w.restore(limits, &given); err != nil {
		return fmt.Errorf("Restore: %w", err)
	}
	w.limits, w.link, w.known = limits, nil, cloneImage(img)
	w.model = RestoreSequential(limits, img)
	return nil
}

// act takes an action on the machine when it is possible. When it is not, a machine that guards itself must panic.
func (w *twin) act(action string, arg uint64, can bool, call func()) error {
	if can {
		call()
		return nil
	}
	if _, guards := w.machine.(Guarded); guards && !panics(call) {
		return fmt.Errorf("%w, and the machine takes it", impossible{action, arg})
	}
	return impossible{action, arg}
}

func panics(call func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	call()
	return false
}

// differ is the error for two things that should be the same.
func (w *twin) differ(want, got, what string, arg ...any) error {
	if w.depth == promised || want == got {
		return nil
	}
	return fmt.Errorf("%s: want %s, got %s", fmt.Sprintf(what, arg...), want, got)
}

func (w *twin) Anchor(id uint64) error {
	err := w.act("Anchor", id, w.model.CanAnchor() && id >= 1 && id <= statemachine.MaxNumber, func() { w.machine.Anchor(id) })
	if err == nil {
		w.model.Anchor(id)
		w.model.Image(&w.known)
	}
	return err
}

func (w *twin) Lost(first uint64) ([]statemachine.Range, error) {
	want := w.model.Lost(first)
	return want, w.differ(FormatRanges(want), FormatRanges(w.machine.Lost(first)), "Lost(%d)", first)
}

func (w *twin) Rebase(first uint64) error {
	can := w.model.anchored && first >= 1 && first <= statemachine.MaxNumber+1
	err := w.act("Rebase", first, can, func() { w.machine.Rebase(first) })
	if err == nil {
		w.model.Rebase(first)
	}
	return err
}

// Receive is a batch that reached the stream.
func (w *twin) Receive(b statemachine.Batch) (got statemachine.Reply, err error) {
	asked := w.model.ReceiveReply(b)
	if m, asks := w.machine.(*statemachine.Stream); asks {
		err = w.differ(asked.String(), m.ReceiveReply(b.ID, b.Digest).String(), "ReceiveReply(%d)", b.ID)
	}
	if err == nil {
		err = w.act("Receive", b.ID, w.model.anchored, func() { got = w.machine.Receive(b) })
	}
	if err != nil {
		return got, err
	}
	return got, w.differ(w.model.Receive(b).String(), got.String(), "Receive(%d)", b.ID)
}

// Serve is a batch from the connection, if there is one.
func (w *twin) Serve(b statemachine.Batch) (statemachine.Reply, error) {
	stream, isShipped := w.machine.(*statemachine.Stream)
	switch {
	case w.link == nil:
		return w.Receive(b)
	case w.link.model.Blocked(b.ID) && !isShipped:
		return w.link.model.Serve(b.ID, statemachine.Retry), nil
	case !isShipped:
		reply, err := w.Receive(b)
		return w.link.model.Serve(b.ID, reply), err
	}
	var got statemachine.Reply
	err := w.act("Receive", b.ID, w.model.anchored || w.link.model.Blocked(b.ID), func() { got = w.link.shipped.Receive(stream, b) })
	if err != nil {
		return got, err
	}
	return got, w.differ(w.link.model.Receive(w.model, b).String(), got.String(), "Session.Receive(%d)", b.ID)
}

// Refuse is Deny, on the connection.
func (w *twin) Refuse(id uint64) {
	w.link.model.Refuse(id)
	w.link.shipped.Refuse(id)
}

// Commit is the question of the connection, if there is one.
func (w *twin) Commit(id uint64) (string, error) {
	stream, isShipped := w.machine.(*statemachine.Stream)
	switch {
	case w.link == nil:
		got := answer(w.machine.Commit(id))
		return got, w.differ(answer(w.model.Commit(id)), got, "Commit(%d)", id)
	case !isShipped:
		return answer(w.link.model.Commit(w.model, id)), nil
	}
	want, got := answer(w.link.model.Commit(w.model, id)), answer(w.link.shipped.Commit(stream, id))
	return got, w.differ(want, got, "Session.Commit(%d)", id)
}

// answer is the reply to a commit as the wire has it.
func answer(reply statemachine.Reply, watermark uint64) string {
	if reply == statemachine.Ack {
		return fmt.Sprintf("%v:%d", reply, watermark)
	}
	return reply.String()
}

func (w *twin) Skip(id uint64) error {
	err := w.act("Skip", id, w.model.CanSkip(id), func() { w.machine.Skip(id) })
	if err == nil {
		w.model.Skip(id)
	}
	return err
}

func (w *twin) Emit(n int) (got []statemachine.Batch, err error) {
	if err := w.act("Emit", uint64(n), w.model.CanEmit(n), func() { got = w.machine.Emit(n) }); err != nil {
		return nil, err
	}
	want := w.model.Emit(n)
	return got, w.differ(withPayloads(want), withPayloads(got), "Emit(%d)", n)
}

func (w *twin) Settle(n int) error {
	err := w.act("Settle", uint64(n), w.model.CanSettle(n), func() { w.machine.Settle(n) })
	if err == nil {
		w.model.Settle(n)
	}
	return err
}

func (w *twin) Rollback(c uint64) error {
	err := w.act("Rollback", c, w.model.CanRollback(c), func() { w.machine.Rollback(c) })
	if err == nil {
		w.model.Rollback(c)
	}
	return err
}

func (w *twin) Resume() error {
	err := w.act("Resume", 0, w.model.CanResume(), w.machine.Resume)
	if err == nil {
		w.model.Resume()
	}
	return err
}

// Snapshot yields the image, as the machine says it, and by its delta if it makes them.
func (w *twin) Snapshot(c uint64) (img statemachine.Image, err error) {
	if err = w.act("Snapshot", c, w.model.CanSnapshot(c), func() { w.machine.Snapshot(c) }); err != nil {
		return img, err
	}
	w.model.Snapshot(c)
	if _, makes := w.machine.(differential); makes {
		return w.applied()
	}
	w.machine.Image(&img)
	return cloneImage(&img), nil
}

func (w *twin) Complete(c uint64, img *statemachine.Image) {
	if _, open := w.model.checkpoints[c]; open {
		w.known = cloneImage(img)
	}
	w.machine.Complete(c)
	w.model.Complete(c)
}

func (w *twin) Abort(c uint64) {
	w.machine.Abort(c)
	w.model.Abort(c)
}
