package model

import (
	"maps"
	"math"
	"slices"

	"github.com/tidemark/tidemark/statemachine"
)

// Image is what a checkpoint stores.
func (s *Sequential) Image(img *statemachine.Image) {
	var kept []statemachine.Batch
	if s.limits.KeepPayloads {
		kept = join(s.inflight, s.queue...)
	}
	unkept := s.Unfinished()
	for id := range ids(kept) {
		delete(unkept, id)
	}
	*img = statemachine.Image{
		Epoch: s.epoch, Anchored: s.anchored, Received: s.received, Queue: kept, Missing: unkept.ranges(),
		Digests: pairs(s.Remembered(s.Watermark())),
	}
	if s.anchored {
		img.Watermark = s.Watermark()
	}
}

// Dirty tells whether there is something to store.
func (s *Sequential) Dirty(stored *statemachine.Image) bool {
	var now statemachine.Image
	s.Image(&now)
	now.Epoch = stored.Epoch
	return !sameImage(&now, stored) || s.Watermark() > s.committed
}

// RestoreSequential is Restore: the next life of a stream, from its stored image.
func RestoreSequential(limits *statemachine.Limits, img *statemachine.Image) *Sequential {
	s := NewSequential(limits)
	fits := img.Queue
	if len(img.Queue) > limits.QueueCapacity {
		fits = img.Queue[:limits.QueueCapacity]
	}
	s.epoch, s.anchored = img.Epoch+1, img.Anchored
	s.committed, s.received = img.Watermark, img.Received
	s.queue = join(fits)
	s.missing = union(numbers(img.Missing), ids(img.Queue[len(fits):]))
	for _, d := range img.Digests {
		s.digests[d.ID] = d.Sum
	}
	return s
}

// State copies the stream into st.
func (s *Sequential) State(st *statemachine.State) {
	*st = statemachine.State{
		Epoch: s.epoch, Anchored: s.anchored, Committed: s.committed, Received: s.received,
		Queue: s.queue, Inflight: s.inflight, Settled: s.settled,
		Missing: s.missing.ranges(), Digests: pairs(s.digests), Last: s.last, Nacks: s.nacks, Halted: s.halted,
	}
	for _, c := range sorted(s.checkpoints) {
		m := s.checkpoints[c]
		st.Checkpoints = append(st.Checkpoints, statemachine.Mark{Checkpoint: c, Watermark: m.watermark, Settled: m.settled})
	}
}

// set is a set of numbers.
type set map[uint64]bool

func (a set) least() uint64 {
	least := uint64(math.MaxUint64)
	for id := range a {
		least = min(least, id)
	}
	return least
}

func (a set) where(keep func(uint64) bool) set {
	b := maps.Clone(a)
	maps.DeleteFunc(b, func(id uint64, _ bool) bool { return !keep(id) })
	return b
}

// ranges is the set as sorted ranges that are never adjacent.
func (a set) ranges() (list []statemachine.Range) {
	for _, id := range sorted(a) {
		if n := len(list); n > 0 && list[n-1].Last+1 == id {
			list[n-1].Last = id
		} else {
			list = append(list, statemachine.Range{First: id, Last: id})
		}
	}
	return list
}

// numbers is the inverse of ranges.
func numbers(list []statemachine.Range) set {
	a := set{}
	for _, r := range list {
		a = union(a, upTo(r.First, r.Last))
	}
	return a
}

// upTo is first..last, empty when last is below first.
func upTo(first, last uint64) set {
	a := set{}
	for id := first; id <= last; id++ {
		a[id] = true
	}
	return a
}

func union(sets ...set) set {
	n := 0
	for _, a := range sets {
		n += len(a)
	}
	all := make(set, n)
	for _, a := range sets {
		maps.Copy(all, a)
	}
	return all
}

// ids is the numbers of a sequence of batches.
func ids(batches []statemachine.Batch) set {
	a := make(set, len(batches))
	for _, b := range batches {
		a[b.ID] = true
	}
	return a
}

// sorted is the domain of a function, in order.
func sorted[V any](f map[uint64]V) []uint64 { return slices.Sorted(maps.Keys(f)) }

func domain[V any](f map[uint64]V) set {
	a := set{}
	for x := range f {
		a[x] = true
	}
	return a
}

// join is a new sequence: a followed by b.
func join(a []statemachine.Batch, b ...statemachine.Batch) []statemachine.Batch {
	return slices.Concat(a, b)
}

// pairs is a function from numbers to sums, in order.
func pairs(f map[uint64]uint64) (list []statemachine.Digest) {
	for _, x := range sorted(f) {
		list = append(list, statemachine.Digest{ID: x, Sum: f[x]})
	}
	return list
}
