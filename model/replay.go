package model

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/statemachine"
)

// maxFaults is how many differences Replay reports before it gives up.
const maxFaults = 5

// world is the variables of StreamGraph.tla on the Go side: a machine, and the image in the store.
type world struct {
	maker
	limits  *statemachine.Limits
	from    *statemachine.State // the state it was put into
	machine Exact
	image   statemachine.Image
}

// put brings the world into a state of the graph.
func (w *world) put(st *statemachine.State, image *statemachine.Image) (err error) {
	w.from, w.image = st, *image
	w.machine, err = w.load(w.limits, st)
	return err
}

// allows tells whether the Go code allows the call, by its Can… method if it has one. What has none is taken as it
// is in the graph.
func (w *world) allows(c Call, inGraph bool, bounds *Constants) bool {
	switch c.Action {
	case "Rebase", "Receive":
		return w.from.Anchored
	case "Restore":
		return w.from.Epoch < bounds.LastEpoch
	case "Complete", "Abort", "Commit":
		return true
	}
	m, guards := w.machine.(Guarded)
	if !guards {
		return inGraph
	}
	switch c.Action {
	case "Anchor":
		return m.CanAnchor()
	case "Skip":
		return m.CanSkip(c.Arg)
	case "Emit":
		return m.CanEmit(int(c.Arg))
	case "Settle":
		return m.CanSettle(int(c.Arg))
	case "Resume":
		return m.CanResume()
	case "Rollback":
		return m.CanRollback(c.Arg)
	case "Snapshot":
		return m.CanSnapshot(c.Arg)
	}
	return false
}

// do takes the call and returns what it tells.
func (w *world) do(c Call) (answer string, err error) {
	switch c.Action {
	case "Anchor":
		w.machine.Anchor(c.Arg)
	case "Rebase":
		answer = FormatRanges(w.machine.Lost(c.Arg))
		w.machine.Rebase(c.Arg)
		return answer, nil
	case "Skip":
		w.machine.Skip(c.Arg)
	case "Receive":
		return w.receive(statemachine.Batch{ID: c.Arg, Digest: c.Body, Records: 1})
	case "Emit":
		w.machine.Emit(int(c.Arg))
	case "Settle":
		w.machine.Settle(int(c.Arg))
	case "Resume":
		w.machine.Resume()
	case "Rollback":
		w.machine.Rollback(c.Arg)
	case "Snapshot":
		w.machine.Snapshot(c.Arg)
		return NoAnswer, w.takeImage()
	case "Complete":
		w.machine.Complete(c.Arg)
	case "Abort":
		w.machine.Abort(c.Arg)
	case "Restore":
		return NoAnswer, w.begin()
	case "Commit":
		return w.commit(c.Arg)
	}
	return NoAnswer, nil
}

// refuses tells whether a machine that guards itself panics, as it must when its Can… method says no. Restore has no
// such method: the bound on it is the graph's own.
func (w *world) refuses(c Call) bool {
	if _, guards := w.machine.(Guarded); !guards || c.Action == "Restore" {
		return true
	}
	return panics(func() { _, _ = w.do(c) })
}

func (w *world) receive(b statemachine.Batch) (string, error) {
	m, asks := w.machine.(interface {
		ReceiveReply(id, digest uint64) statemachine.Reply
	})
	if !asks {
		return w.machine.Receive(b).String(), nil
	}
	asked := m.ReceiveReply(b.ID, b.Digest)
	got := w.machine.Receive(b)
	if asked != got {
		return "", fmt.Errorf("Receive says %s, ReceiveReply before it said %s", got, asked)
	}
	return got.String(), nil
}

// takeImage also checks that the delta from nothing is the image.
func (w *world) takeImage() error {
	w.image = statemachine.Image{} // the slices of the graph's image are not to be reused
	w.machine.Image(&w.image)
	m, makes := w.machine.(differential)
	if !makes {
		return nil
	}
	var applied statemachine.Image
	if err := applied.Apply(m.AppendDelta(nil)); err != nil {
		return err
	}
	if !sameImage(&w.image, &applied) {
		return fmt.Errorf("image %s, its delta makes %s", DescribeImage(&w.image), DescribeImage(&applied))
	}
	return nil
}

// begin restores from the image in the store. It also checks Dirty against its definition: what is stored is the image
// restored from.
func (w *world) begin() error {
	given := cloneImage(&w.image)
	m, err := w.restore(w.limits, &given)
	if err != nil {
		return err
	}
	w.machine = m.(Exact)
	var now statemachine.Image
	w.machine.Image(&now)
	now.Epoch = w.image.Epoch
	want := !sameImage(&now, &w.image) || now.Watermark > w.image.Watermark
	if got := w.machine.Dirty(); got != want {
		return fmt.Errorf("dirty: want %t, got %t", want, got)
	}
	return nil
}

// commit also checks the watermark, which the graph does not hold: it is s.committed.
func (w *world) commit(id uint64) (string, error) {
	reply, watermark := w.machine.Commit(id)
	want := uint64(0)
	if reply == statemachine.Ack {
		want = w.from.Committed
	}
	if watermark != want {
		return "", fmt.Errorf("%s comes with watermark %d, want %d", reply, watermark, want)
	}
	return reply.String(), nil
}

// sound asks a machine that can tell.
func (w *world) sound() error {
	if m, can := w.machine.(interface{ Sound() error }); can {
		return m.Sound()
	}
	return nil
}

// replayer walks a graph.
type replayer struct {
	g      *Graph
	calls  []Call
	number map[Call]int // of the call in calls
	leaves []*Edge      // by call: the edge that leaves the state at hand
	before []*Edge      // likewise of the state before it
	world  world
	state  statemachine.State // of the world, reused
	faults []error
}

// Replay takes every step of the graph on package statemachine and compares the next stream, the
// image and the answer, and demands that in every state the Go code allows exactly the calls that
// the graph has. The error names the first few states and calls where they differ.
func (g *Graph) Replay() error { return g.replay(shipped()) }

func (g *Graph) replay(mk maker) error {
	r := replayer{g: g, calls: g.Constants.calls(), number: map[Call]int{}, world: world{maker: mk, limits: &g.Constants.Limits}}
	r.leaves, r.before = make([]*Edge, len(r.calls)), make([]*Edge, len(r.calls))
	for i, c := range r.calls {
		r.number[c] = i
	}
	for i := range g.States {
		r.replay(i)
		if len(r.faults) >= maxFaults {
			break
		}
	}
	return errors.Join(r.faults...)
}

func (r *replayer) fault(state int, c Call, format string, args ...any) {
	at := r.g.States[state]
	r.faults = append(r.faults, fmt.Errorf("%s: state %d, stream %s: %s(%d, %d): %s", r.g.Name(), state,
		DescribeStream(&r.g.Streams[at.Stream]), c.Action, c.Arg, c.Body, fmt.Sprintf(format, args...)))
}

// replay does everything that is possible in one state.
func (r *replayer) replay(state int) {
	at := &r.g.States[state]
	r.before, r.leaves = r.leaves, r.before
	clear(r.leaves)
	for i := range at.Edges {
		c := r.g.Steps[at.Edges[i].Step].Call
		n, known := r.number[c]
		if !known {
			r.fault(state, c, "the graph has it, the constants do not allow it")
			continue
		}
		r.leaves[n] = &at.Edges[i]
	}
	loaded := false // whether the world is in the state at hand
	for n, c := range r.calls {
		if r.repeats(state, n) {
			continue
		}
		if !loaded {
			if err := r.world.put(&r.g.Streams[at.Stream], &r.g.Images[at.Image]); err != nil {
				r.fault(state, c, "Load: %v", err)
				return
			}
		}
		loaded = r.try(state, c, r.leaves[n])
	}
}

// repeats tells whether the state before had the same stream, and the graph says the same of the
// call there. The Go stream does not know the image in the store, except in Restore, so that what
// held there holds here, and the call need not be taken again.
func (r *replayer) repeats(state, call int) bool {
	if state == 0 || r.calls[call].Action == "Restore" || r.g.States[state].Stream != r.g.States[state-1].Stream {
		return false
	}
	now, before := r.leaves[call], r.before[call]
	if now == nil || before == nil {
		return now == before
	}
	image := r.g.States[state].Image
	if r.calls[call].Action == "Snapshot" {
		image = before.To.Image
	}
	return now.Step == before.Step && now.To == Place{before.To.Stream, image}
}

// try compares one call in a state and tells whether the world was left as it was.
func (r *replayer) try(state int, c Call, edge *Edge) (untouched bool) {
	allowed := r.world.allows(c, edge != nil, &r.g.Constants)
	if allowed != (edge != nil) {
		r.fault(state, c, "the specification allows it: %t, the Go code: %t", edge != nil, allowed)
		return true
	}
	if edge == nil {
		if !r.world.refuses(c) {
			r.fault(state, c, "the Go code takes it although it does not allow it")
		}
		return false
	}
	answer, err := r.world.do(c)
	if err == nil {
		err = r.world.sound()
	}
	if err != nil {
		r.fault(state, c, "%v", err)
		return false
	}
	if want := r.g.Steps[edge.Step].Answer; answer != want {
		r.fault(state, c, "answer: want %s, got %s", want, answer)
	}
	r.world.machine.State(&r.state)
	if want := &r.g.Streams[edge.To.Stream]; !sameStream(want, &r.state) {
		r.fault(state, c, "next stream:\n\twant %s\n\tgot  %s", DescribeStream(want), DescribeStream(&r.state))
	}
	if want := &r.g.Images[edge.To.Image]; !sameImage(want, &r.world.image) {
		r.fault(state, c, "image:\n\twant %s\n\tgot  %s", DescribeImage(want), DescribeImage(&r.world.image))
	}
	return false
}

func sameStream(a, b *statemachine.State) bool {
	return a.Epoch == b.Epoch && a.Anchored == b.Anchored && a.Committed == b.Committed && a.Received == b.Received &&
		sameBatches(a.Queue, b.Queue) && sameBatches(a.Inflight, b.Inflight) && sameBatches(a.Settled, b.Settled) &&
		slices.Equal(a.Missing, b.Missing) && slices.Equal(a.Digests, b.Digests) &&
		slices.Equal(a.Checkpoints, b.Checkpoints) && a.Last == b.Last && a.Nacks == b.Nacks && a.Halted == b.Halted
}

func sameImage(a, b *statemachine.Image) bool {
	return a.Epoch == b.Epoch && a.Anchored == b.Anchored && a.Watermark == b.Watermark && a.Received == b.Received &&
		sameBatches(a.Queue, b.Queue) && slices.Equal(a.Missing, b.Missing) && slices.Equal(a.Digests, b.Digests)
}

func sameBatches(a, b []statemachine.Batch) bool {
	return slices.EqualFunc(a, b, func(x, y statemachine.Batch) bool { return x.ID == y.ID && x.Digest == y.Digest })
}
