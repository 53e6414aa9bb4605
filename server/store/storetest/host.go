package storetest

import (
	"context"
	"maps"
	"slices"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// host has streams and stores them, as the server does.
type host struct {
	limits   statemachine.Limits
	streams  map[string]*statemachine.Stream
	next     uint64 // number of the next checkpoint
	begun    uint64
	saved    uint64 // what the store must hold: the last checkpoint, its position, the images, the seats
	position []byte
	images   map[string]*statemachine.Image
	seats    map[string]statemachine.SeatImage
	pending  map[string]*statemachine.Image
	pendingP []byte
}

func newHost(names ...string) *host {
	h := &host{limits: statemachine.DefaultLimits(), next: 1, streams: map[string]*statemachine.Stream{},
		images: map[string]*statemachine.Image{}, seats: map[string]statemachine.SeatImage{}}
	h.limits.KeepPayloads, h.limits.History, h.limits.Ahead = true, 16, 16
	for _, name := range names {
		h.streams[name] = statemachine.New(&h.limits)
		h.streams[name].Anchor(1)
	}
	return h
}

// work accepts n batches, of which the sink takes all but one; one number is skipped now and then.
func (h *host) work(name string, n int) {
	s := h.streams[name]
	for range n {
		id := s.Received() + 1
		if id%7 == 0 {
			id++
		}
		s.Receive(statemachine.Batch{ID: id, Digest: id * 0x9e3779b97f4a7c15, Records: 1, Payload: []byte{3, byte(id), 'x', 0}})
		for _, gap := range slices.Clone(s.Missing()) {
			if gap.First+3 < id {
				s.Receive(statemachine.Batch{ID: gap.First, Digest: 1, Records: 1, Payload: []byte{0}})
			}
		}
	}
	if waiting := s.Queued(); waiting > 1 {
		s.Emit(waiting - 1)
		s.Settle(waiting - 1)
	}
}

// change is what a store gets of a stream now, and the image it must then hold.
func (h *host) change(name string) (store.Change, *statemachine.Image) {
	img := new(statemachine.Image)
	h.streams[name].Image(img)
	for i := range img.Queue {
		img.Queue[i].Payload = slices.Clone(img.Queue[i].Payload)
	}
	return store.Change{Collector: name, Delta: h.streams[name].AppendDelta(nil)}, img
}

func (h *host) checkpoint(position []byte, names ...string) *store.Checkpoint {
	c := &store.Checkpoint{Number: h.next, Position: position}
	h.begun, h.pending, h.pendingP = h.next, map[string]*statemachine.Image{}, slices.Clone(position)
	h.next++
	for _, name := range names {
		h.streams[name].Snapshot(c.Number)
		change, img := h.change(name)
		c.Changes = append(c.Changes, change)
		h.pending[name] = img
	}
	return c
}

func (h *host) complete(number uint64) {
	h.saved, h.position = number, h.pendingP
	maps.Copy(h.images, h.pending)
	for name := range h.pending {
		h.streams[name].Complete(number)
	}
}

func (h *host) save(s store.Store, position []byte, names ...string) error {
	c := h.checkpoint(position, names...)
	err := s.Save(context.Background(), c)
	if err == nil {
		h.complete(c.Number)
	}
	return err
}

func (h *host) anchor(s store.Store, name string) error { return h.anchorWith(s, name, nil) }

// anchorWith stores the first image of a stream, and a seat when it is not nil.
func (h *host) anchorWith(s store.Store, name string, seat *statemachine.SeatImage) error {
	change, img := h.change(name)
	h.images[name], change.Seat = img, seat
	h.sits(name, seat)
	return s.Anchor(context.Background(), change)
}

// seat stores a seat alone.
func (h *host) seat(s store.Store, name string, seat *statemachine.SeatImage) error {
	h.sits(name, seat)
	return s.Anchor(context.Background(), store.Change{Collector: name, Seat: seat})
}

func (h *host) sits(name string, seat *statemachine.SeatImage) {
	if seat != nil {
		h.seats[name] = statemachine.SeatImage{Instance: seat.Instance, Retired: slices.Clone(seat.Retired)}
	}
}

// restore begins a new life from what a store holds.
func (h *host) restore(st *store.Stored) error {
	h.next = st.Number + 1
	for name, img := range st.Images {
		s, err := statemachine.Restore(&h.limits, img)
		if err != nil {
			return err
		}
		h.streams[name] = s
	}
	return nil
}
