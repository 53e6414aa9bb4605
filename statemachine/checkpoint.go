package statemachine

import "slices"

// open is the index of checkpoint c among the open ones, or -1.
func (s *Stream) open(c uint64) int {
	return slices.IndexFunc(s.marks, func(m mark) bool { return m.Checkpoint == c })
}

// CanSnapshot tells whether checkpoint c can begin: a number is used once in a life, or a late notice
// could complete another checkpoint.
func (s *Stream) CanSnapshot(c uint64) bool { return s.anchored && c > s.last }

// Snapshot freezes the watermark for checkpoint c. In the same instant the host takes the image
// ([Stream.Image] or [Stream.AppendDelta]) and seals the sink's transaction, never while a delivery
// of this stream is half taken. A halted stream is snapshotted like any other. When MaxCheckpoints
// are open already the oldest is forgotten, as Abort would.
func (s *Stream) Snapshot(c uint64) {
	must(s.CanSnapshot(c), "Snapshot", c)
	if len(s.marks) >= s.limits.MaxCheckpoints {
		s.marks = slices.Delete(s.marks, 0, 1)
	}
	s.marks = append(s.marks, mark{Mark{c, s.Watermark(), s.settled}, s.position()})
	s.last = c
}

// Image copies what a checkpoint stores now into img, reusing its slices: a batch in flight counts
// as not delivered.
func (s *Stream) Image(img *Image) {
	*img = Image{
		Epoch: s.epoch, Anchored: s.anchored, Watermark: s.Watermark(), Received: s.received,
		Queue:   img.Queue[:0],
		Missing: append(img.Missing[:0], s.unkept()...),
	}
	if s.limits.KeepPayloads {
		img.Queue = append(img.Queue, s.undelivered()...)
	}
	img.Digests = s.digests.appendTo(img.Digests[:0], s.forgotten(img.Watermark))
}

// unkept is the unfinished numbers whose payload the image leaves out; valid until the next call.
func (s *Stream) unkept() ranges {
	rest := s.undelivered()
	if s.limits.KeepPayloads || len(rest) == 0 {
		return s.missing
	}
	s.scratch = append(s.scratch[:0], s.missing...)
	first, last := rest[0].ID, rest[len(rest)-1].ID
	if s.descents == 0 && last-first == uint64(len(rest)-1) {
		s.scratch.add(first, last) // no gaps: the straight path
		return s.scratch
	}
	for _, b := range rest {
		s.scratch.add(b.ID, b.ID)
	}
	return s.scratch
}

// forgotten is the highest number that a stream with watermark w remembers no digest of.
func (s *Stream) forgotten(w uint64) uint64 {
	if h := uint64(s.limits.History); w > h {
		return w - h
	}
	return 0
}

// Dirty tells whether there is something to store: the image differs from that of the last completed
// checkpoint, or the one restored, in more than the epoch. That rows were written is not the question. The
// watermark is above Committed only then, since an image counts as stored when its checkpoint
// completes. An Anchor is not counted: the host stores its image by itself.
func (s *Stream) Dirty() bool { return s.position().version != s.stored.version }

// Complete says that checkpoint c is durable: everything settled before Snapshot(c) is in the sink
// for good, and its image in the store, whatever became of older checkpoints. It commits the
// watermark frozen then, releases the batches, and closes c and all older ones. A number that is
// not open changes nothing: notices may come late, twice or out of order.
func (s *Stream) Complete(c uint64) {
	i := s.open(c)
	if i < 0 {
		return
	}
	m := s.marks[i]
	s.marks = slices.Delete(s.marks, 0, i+1)
	for j := range s.marks {
		s.marks[j].Settled -= m.Settled
	}
	s.release(m.Settled)
	s.committed = max(s.committed, m.Watermark)
	s.digests.forget(s.forgotten(s.committed))
	s.stored = m.image
}

// Abort forgets checkpoint c. It is for a sink that keeps c's rows for the next commit; one that
// lost them needs [Stream.Rollback]. A number that is not open changes nothing.
func (s *Stream) Abort(c uint64) {
	if i := s.open(c); i >= 0 {
		s.marks = slices.Delete(s.marks, i, i+1)
	}
}
