package model

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/statemachine"
)

// host is the world of one stream: the twin, a store for images, and a sink that commits together with the store. It
// keeps what was promised, and checks it against what the sink holds for good.
type host struct {
	twin
	current       statemachine.Limits           // of this life
	stored        statemachine.Image            // in the store
	sealed        []checkpoint                  // begun, and neither stored nor over; oldest first
	saved         map[uint64]statemachine.Image // stored in this life, by number
	number        uint64                        // highest checkpoint number: it rises for the life of the store
	top, heard    uint64                        // highest checkpoint stored in this life, and highest of these that was completed
	emitted, open []statemachine.Batch          // with the sink: in flight; taken since the last barrier

	durable  map[uint64]uint64 // number -> digest, in the sink for good
	twice    []uint64          // numbers that are there twice
	received map[uint64]uint64 // number -> digest of the body last answered RECEIVED in this life
	lost     set               // given up by a rebase
	first    uint64            // the anchor
	watch    func(*host) error // the one promise to check; nil: all
	told     uint64            // highest watermark the machine acknowledged, in all its lives

	before []field // what scripts showed before the command that runs
}

// checkpoint is one that has begun: its image, and what the sink took up to its barrier and after the one before.
type checkpoint struct {
	number uint64
	image  statemachine.Image
	rows   []statemachine.Batch
}

func (h *host) fresh(limits statemachine.Limits) error {
	*h = host{
		twin: twin{maker: h.maker, depth: h.depth}, watch: h.watch, current: limits, saved: map[uint64]statemachine.Image{},
		durable: map[uint64]uint64{}, received: map[uint64]uint64{}, lost: set{},
	}
	return h.begin(&h.current)
}

// anchor is durable at once.
func (h *host) anchor(id uint64) error {
	err := h.Anchor(id)
	if err == nil {
		h.stored, h.first = cloneImage(&h.known), id
	}
	return err
}

func (h *host) rebase(first uint64) error {
	gone := h.model.Lost(max(first, 1))
	err := h.Rebase(first)
	if err == nil {
		h.lost = union(h.lost, numbers(gone))
	}
	return err
}

func (h *host) skip(id uint64) error {
	err := h.Skip(id)
	if err == nil {
		h.lost = union(h.lost, set{id: true})
	}
	return err
}

func (h *host) receive(b statemachine.Batch) (statemachine.Reply, error) {
	reply, err := h.Serve(b)
	if err == nil && reply == statemachine.Received {
		h.received[b.ID] = b.Digest
	}
	return reply, err
}

func (h *host) emit(n int) (err error) {
	batches, err := h.Emit(n)
	h.emitted = slices.Clone(batches)
	return err
}

func (h *host) settle(n int) error {
	err := h.Settle(n)
	if err == nil {
		h.open = append(h.open, h.emitted[:min(n, len(h.emitted))]...)
		h.emitted = nil
	}
	return err
}

// rollback: the sink loses what it took after the barrier of c.
func (h *host) rollback(c uint64) error {
	err := h.Rollback(c)
	if err == nil {
		h.open, h.emitted = nil, nil
		h.sealed = slices.DeleteFunc(h.sealed, func(k checkpoint) bool { return k.number > c })
	}
	return err
}

// snapshot is the barrier of checkpoint c; one that the stream forgets for it leaves its rows to the next.
func (h *host) snapshot(c uint64) error {
	img, err := h.Snapshot(c)
	if err != nil {
		return err
	}
	h.number = max(h.number, c)
	h.sealed = append(h.sealed, checkpoint{c, img, h.open})
	h.open = nil
	for _, k := range slices.Clone(h.sealed) {
		if _, open := h.model.checkpoints[k.number]; !open {
			h.over(k.number)
		}
	}
	return nil
}

func (h *host) abort(c uint64) {
	h.Abort(c)
	h.over(c)
}

// over gives the rows of a checkpoint that will not be stored to the next one.
func (h *host) over(c uint64) {
	i := slices.IndexFunc(h.sealed, func(k checkpoint) bool { return k.number == c })
	if i < 0 {
		return
	}
	next := &h.open
	if i+1 < len(h.sealed) {
		next = &h.sealed[i+1].rows
	}
	*next = slices.Concat(h.sealed[i].rows, *next)
	h.sealed = slices.Delete(h.sealed, i, i+1)
}

// save makes checkpoint c durable, with the rows of all before it: the sink and the store in one step. The stream has
// not heard of it yet.
func (h *host) save(c uint64) {
	i := slices.IndexFunc(h.sealed, func(k checkpoint) bool { return k.number == c })
	if i < 0 {
		return
	}
	for _, k := range h.sealed[:i+1] {
		for _, b := range k.rows {
			if _, there := h.durable[b.ID]; there {
				h.twice = append(h.twice, b.ID)
			}
			h.durable[b.ID] = b.Digest
		}
	}
	h.stored = h.sealed[i].image
	h.saved[c], h.top = h.stored, c
	h.sealed = slices.Delete(h.sealed, 0, i+1)
}

// complete is the notice that checkpoint c is durable; it is first made so if it is not.
func (h *host) complete(c uint64) {
	h.save(c)
	if _, open := h.model.checkpoints[c]; open {
		h.heard = max(h.heard, c)
	}
	img := h.saved[c]
	h.Complete(c, &img)
}

// owed tells whether a rollback to the barrier of c would take back what is durable: the stream must hear of the
// completed checkpoint first.
func (h *host) owed(c uint64) bool { return h.top > h.heard && c < h.top }

// crash ends the process: what is not stored is gone. The next one begins from the store.
func (h *host) crash() error {
	h.sealed, h.open, h.emitted = nil, nil, nil
	h.saved, h.top, h.heard = map[uint64]statemachine.Image{}, 0, 0
	for id := range h.received {
		if _, there := h.durable[id]; !there {
			delete(h.received, id)
		}
	}
	return h.Restore(&h.current, &h.stored)
}

// promises are what a collector, and whoever reads the sink, may rely on. They are checked on what the machine answers
// and emits, whatever Sequential would do.
var promises = []struct {
	name  string
	check func(*host) error
}{
	{"NoLoss", (*host).noLoss},
	{"ExactlyOnce", (*host).exactlyOnce},
	{"Rises", (*host).rises},
}

func (h *host) keepsPromises() error {
	for _, id := range h.near() {
		if reply, watermark := h.machine.Commit(id); reply == statemachine.Ack {
			h.told = max(h.told, watermark)
		}
	}
	if h.watch != nil {
		return h.watch(h)
	}
	for _, p := range promises {
		if err := p.check(h); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// noLoss: what a collector is told to forget is in the sink for good, as it was received.
func (h *host) noLoss() error {
	for _, id := range sorted(h.received) {
		sum := h.received[id]
		if got, there := h.durable[id]; id <= h.told && !h.lost[id] && (!there || got != sum) {
			return fmt.Errorf("%d was RECEIVED and everything up to %d acknowledged, and it is not in the sink", id, h.told)
		}
	}
	for id := h.first; !h.current.Sparse && id > 0 && id <= h.told; id++ {
		if _, there := h.durable[id]; !there && !h.lost[id] {
			return fmt.Errorf("everything up to %d was acknowledged, and %d is not in the sink", h.told, id)
		}
	}
	return nil
}

// exactlyOnce: a sink that commits together with the store has nothing twice.
func (h *host) exactlyOnce() error {
	if len(h.twice) > 0 {
		return fmt.Errorf("%d is in the sink twice", h.twice[0])
	}
	return nil
}

// rises: an acknowledgement is never taken back, by a restart neither.
func (h *host) rises() error {
	if h.told == 0 || h.told < h.first {
		return nil
	}
	if reply, watermark := h.machine.Commit(h.told); reply != statemachine.Ack || watermark < h.told {
		return fmt.Errorf("%d was acknowledged, and now the answer is %s", h.told, answer(reply, watermark))
	}
	return nil
}
