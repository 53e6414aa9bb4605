package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark/tidemark/statemachine"
)

// Sequential is the record s of Stream.tla, kept as the specification keeps it: sequences are slices, sets and
// functions are maps, and each operator is a method of the same name, in the same order. It is slow and obvious: what
// a fast machine does is compared with it. Of package statemachine it uses the plain data types and nothing else.
//
// Two things are not in the specification: QueueBytes, which TLC's batches have not, and MaxNumber, above which no
// number is wanted.
//
// As there, an operator says what the next stream is and not when it is possible: ask Can… first.
type Sequential struct {
	limits *statemachine.Limits

	epoch, committed, received uint64
	anchored, halted           bool
	queue, inflight, settled   []statemachine.Batch
	missing                    set
	digests                    map[uint64]uint64
	checkpoints                map[uint64]covered
	last                       uint64
	nacks                      int
}

// covered is what an open checkpoint holds: its frozen watermark, and how many settled batches it covers.
type covered struct {
	watermark uint64
	settled   int
}

// NewSequential is Fresh.
func NewSequential(limits *statemachine.Limits) *Sequential {
	return &Sequential{limits: limits, missing: set{}, digests: map[uint64]uint64{}, checkpoints: map[uint64]covered{}}
}

// Unfinished is the numbers whose delivery is not known to be done.
func (s *Sequential) Unfinished() set {
	return union(ids(s.queue), ids(s.inflight), s.missing)
}

// Watermark is the number at or below which everything has been delivered to the sink.
func (s *Sequential) Watermark() uint64 {
	unfinished := s.Unfinished()
	if len(unfinished) == 0 {
		return s.received
	}
	return unfinished.least() - 1
}

// Held is how many batches the stream holds.
func (s *Sequential) Held() int { return len(s.queue) + len(s.inflight) + len(s.settled) }

// Full tells whether there is no room for another batch.
func (s *Sequential) Full() bool {
	bytes := int64(0)
	for _, part := range [][]statemachine.Batch{s.queue, s.inflight, s.settled} {
		for _, b := range part {
			bytes += int64(len(b.Payload))
		}
	}
	return s.Held() >= s.limits.QueueCapacity || s.limits.QueueBytes > 0 && bytes >= s.limits.QueueBytes
}

// Uncommitted is the numbers remembered above the watermark of the last completed checkpoint.
func (s *Sequential) Uncommitted() set {
	above := set{}
	for id := range s.digests {
		if id > s.committed {
			above[id] = true
		}
	}
	return above
}

// Near tells whether there is room to remember this number.
func (s *Sequential) Near(id uint64) bool {
	if s.missing[id] {
		return true
	}
	if s.limits.Sparse {
		return uint64(len(s.Uncommitted())) < s.limits.Ahead
	}
	return id <= s.committed+s.limits.Ahead
}

// Room tells whether a wanted batch of this number would be taken.
func (s *Sequential) Room(id uint64) bool { return !s.halted && !s.Full() && s.Near(id) }

// CanAnchor tells whether Anchor is possible.
func (s *Sequential) CanAnchor() bool { return !s.anchored }

// Anchor fixes where the numbers begin.
func (s *Sequential) Anchor(id uint64) { s.anchored, s.received, s.committed = true, id-1, id-1 }

// Lost is what Rebase(first) gives up.
func (s *Sequential) Lost(first uint64) []statemachine.Range {
	return union(s.missing.where(func(id uint64) bool { return id < first }), upTo(s.received+1, first-1)).ranges()
}

// Rebase says that the collector holds nothing below first.
func (s *Sequential) Rebase(first uint64) {
	s.received = max(s.received, first-1)
	s.missing = s.missing.where(func(id uint64) bool { return id >= first })
}

// Skipped is the numbers that a batch of this number leaves out.
func (s *Sequential) Skipped(id uint64) set {
	if s.limits.Sparse {
		return set{}
	}
	return upTo(s.received+1, id-1)
}

// Wanted tells whether a batch of this number is to be taken at all.
func (s *Sequential) Wanted(id uint64) bool {
	return id > s.received && id <= statemachine.MaxNumber || s.missing[id]
}

// ReceiveReply is the answer to a batch.
func (s *Sequential) ReceiveReply(b statemachine.Batch) statemachine.Reply {
	body, known := s.digests[b.ID]
	switch {
	case s.Wanted(b.ID) && s.Room(b.ID):
		return statemachine.Received
	case s.Wanted(b.ID):
		return statemachine.QueueFull
	case !known:
		return statemachine.Stale
	case body != b.Digest:
		return statemachine.Conflict
	default:
		return statemachine.Received
	}
}

// Receive queues a batch that is wanted and for which there is room, and answers.
func (s *Sequential) Receive(b statemachine.Batch) statemachine.Reply {
	reply := s.ReceiveReply(b)
	if !s.Wanted(b.ID) || !s.Room(b.ID) {
		return reply
	}
	s.queue = join(s.queue, b)
	s.missing = union(s.missing, s.Skipped(b.ID))
	delete(s.missing, b.ID)
	s.received = max(s.received, b.ID)
	s.digests[b.ID] = b.Digest
	return reply
}

// CanSkip tells whether a number can be given up.
func (s *Sequential) CanSkip(id uint64) bool { return s.anchored && s.Wanted(id) && s.Near(id) }

// Skip says that the collector gives a number up.
func (s *Sequential) Skip(id uint64) {
	s.missing = union(s.missing, s.Skipped(id)).where(func(other uint64) bool { return other != id })
	s.received = max(s.received, id)
}

// CanEmit tells whether Emit(n) is possible.
func (s *Sequential) CanEmit(n int) bool {
	return !s.halted && len(s.inflight) == 0 && n >= 1 && n <= len(s.queue)
}

// Emit gives the first n batches of the queue to the sink.
func (s *Sequential) Emit(n int) []statemachine.Batch {
	s.inflight, s.queue = join(s.queue[:n]), join(s.queue[n:])
	return s.inflight
}

// CanSettle tells whether Settle(n) is possible.
func (s *Sequential) CanSettle(n int) bool {
	return len(s.inflight) > 0 && n >= 0 && n <= len(s.inflight)
}

// Settle says that the sink took the first n batches in flight.
func (s *Sequential) Settle(n int) {
	failed := 0
	if n == 0 {
		failed = s.nacks + 1
	}
	s.settled = join(s.settled, s.inflight[:n]...)
	s.queue = join(s.inflight[n:], s.queue...)
	s.inflight = nil
	s.nacks = failed
	s.halted = failed >= s.limits.MaxNacks
}

// Kept is how many settled batches checkpoint c covers.
func (s *Sequential) Kept(c uint64) int { return s.checkpoints[c].settled }

// CanRollback tells whether Rollback(c) is possible.
func (s *Sequential) CanRollback(c uint64) bool {
	_, open := s.checkpoints[c]
	return (c == 0 || open) && (len(s.settled) > s.Kept(c) || len(s.inflight) > 0)
}

// Rollback says that the sink lost what it took since the barrier of checkpoint c.
func (s *Sequential) Rollback(c uint64) {
	kept := s.Kept(c)
	s.queue = join(join(s.settled[kept:], s.inflight...), s.queue...)
	s.inflight = nil
	s.settled = join(s.settled[:kept])
	maps.DeleteFunc(s.checkpoints, func(d uint64, _ covered) bool { return d > c })
}

// CanResume tells whether Resume is possible.
func (s *Sequential) CanResume() bool { return s.halted }

// Resume gives the sink another chance.
func (s *Sequential) Resume() { s.nacks, s.halted = 0, false }

// CanSnapshot tells whether Snapshot(c) is possible.
func (s *Sequential) CanSnapshot(c uint64) bool { return s.anchored && c > s.last }

// Still is the checkpoints that stay open when another one begins.
func (s *Sequential) Still() map[uint64]covered {
	still := maps.Clone(s.checkpoints)
	if len(still) >= s.limits.MaxCheckpoints {
		delete(still, domain(still).least())
	}
	return still
}

// Snapshot freezes the watermark for checkpoint c.
func (s *Sequential) Snapshot(c uint64) {
	s.last = c
	s.checkpoints = s.Still()
	s.checkpoints[c] = covered{s.Watermark(), len(s.settled)}
}

// Remembered is the digests that a stream with watermark w keeps.
func (s *Sequential) Remembered(w uint64) map[uint64]uint64 {
	kept := maps.Clone(s.digests)
	maps.DeleteFunc(kept, func(x, _ uint64) bool { return x+uint64(s.limits.History) <= w })
	return kept
}

// Complete says that everything settled before Snapshot(c) is durable.
func (s *Sequential) Complete(c uint64) {
	mark, open := s.checkpoints[c]
	if !open {
		return
	}
	s.committed = max(s.committed, mark.watermark)
	s.settled = join(s.settled[mark.settled:])
	s.digests = s.Remembered(s.committed)
	later := map[uint64]covered{}
	for d, m := range s.checkpoints {
		if d > c {
			later[d] = covered{m.watermark, m.settled - mark.settled}
		}
	}
	s.checkpoints = later
}

// Abort forgets checkpoint c.
func (s *Sequential) Abort(c uint64) { delete(s.checkpoints, c) }

// Commit answers whether the collector may forget a batch, and up to where: CommitReply.
func (s *Sequential) Commit(id uint64) (statemachine.Reply, uint64) {
	switch {
	case id <= s.committed:
		return statemachine.Ack, s.committed
	case s.missing[id]:
		return statemachine.Resend, 0
	case id > s.received:
		return statemachine.Retry, 0
	default:
		return statemachine.Pending, 0
	}
}

// Sound is TypeOK and Sound, which hold of every reachable stream; the error names what does not.
func (s *Sequential) Sound() error {
	w, unfinished := s.Watermark(), s.Unfinished()
	holds := map[string]bool{
		"committed <= watermark <= received":  s.committed <= w && w <= s.received,
		"no more is held than QueueCapacity":  s.Held() <= s.limits.QueueCapacity,
		"digests <= History + Ahead":          uint64(len(s.digests)) <= uint64(s.limits.History)+s.limits.Ahead,
		"checkpoints <= MaxCheckpoints":       len(s.checkpoints) <= s.limits.MaxCheckpoints,
		"each undelivered batch is held once": len(union(ids(s.queue), ids(s.inflight))) == len(s.queue)+len(s.inflight),
		"what is missing is not here":         len(unfinished) == len(s.queue)+len(s.inflight)+len(s.missing),
		"0 is no number":                      !unfinished[0],
	}
	for c, m := range s.checkpoints {
		holds[fmt.Sprint("checkpoint ", c)] = m.watermark <= w && m.settled <= len(s.settled) && c <= s.last
	}
	for _, b := range s.settled {
		holds[fmt.Sprint("settled ", b.ID)] = b.ID > s.committed
	}
	for id := range unfinished {
		holds[fmt.Sprint("unfinished ", id)] = s.committed < id && id <= s.received
	}
	return firstFalse(holds)
}

// Accounted is that every number is here or asked for, but for those given up.
func (s *Sequential) Accounted(lost set) error {
	holds := map[string]bool{}
	for id := s.committed + 1; id <= s.received; id++ {
		_, known := s.digests[id]
		holds[fmt.Sprint("number ", id, " is accounted for")] = s.missing[id] || known || lost[id]
	}
	return firstFalse(holds)
}

// firstFalse names the first claim that does not hold.
func firstFalse(holds map[string]bool) error {
	for _, claim := range slices.Sorted(maps.Keys(holds)) {
		if !holds[claim] {
			return fmt.Errorf("not sound: %s", claim)
		}
	}
	return nil
}
