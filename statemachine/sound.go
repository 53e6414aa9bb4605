package statemachine

import (
	"errors"
	"fmt"
)

// Sound checks what Stream.tla promises of every reachable stream (TypeOK and Sound) and names what
// does not hold. It is for tests and tools: it walks everything the stream holds.
func (s *Stream) Sound() error {
	return errors.Join(s.soundNumbers(), s.soundHeld(), s.soundBounds())
}

func claim(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf("not sound: "+format, args...)
}

func (s *Stream) soundNumbers() error {
	w := s.Watermark()
	err := errors.Join(
		claim(s.committed <= w && w <= s.received, "committed %d, watermark %d, received %d do not rise", s.committed, w, s.received),
		claim(s.missing.canonical(s.committed+1, s.received), "missing %v is not a set within %d to %d", s.missing, s.committed+1, s.received),
		claim(s.anchored || s.received == 0, "received %d before the anchor", s.received),
	)
	last := uint64(0)
	for _, m := range s.marks {
		err = errors.Join(err,
			claim(m.Watermark <= w, "checkpoint %d froze %d above the watermark %d", m.Checkpoint, m.Watermark, w),
			claim(m.Settled <= s.settled, "checkpoint %d covers %d of %d settled", m.Checkpoint, m.Settled, s.settled),
			claim(last < m.Checkpoint && m.Checkpoint <= s.last, "checkpoint %d after %d, highest is %d", m.Checkpoint, last, s.last))
		last = m.Checkpoint
	}
	return err
}

func (s *Stream) soundHeld() error {
	var err error
	var seen ranges
	descents, before := 0, uint64(0)
	for i, b := range s.held.live() {
		err = errors.Join(err, claim(b.ID > s.committed && b.ID <= s.received, "batch %d held outside of %d to %d", b.ID, s.committed+1, s.received))
		if i >= s.settled {
			err = errors.Join(err, claim(!seen.contains(b.ID) && !s.missing.contains(b.ID), "batch %d is unfinished twice", b.ID))
			seen.add(b.ID, b.ID)
		}
		if before > b.ID {
			descents++
		}
		before = b.ID
	}
	return errors.Join(err,
		claim(descents == s.descents, "%d descents counted as %d", descents, s.descents),
		claim(s.settled >= 0 && s.inflight >= 0 && s.Queued() >= 0, "settled %d and in flight %d of %d", s.settled, s.inflight, s.held.len()))
}

func (s *Stream) soundBounds() error {
	held, remembered := s.held.len(), uint64(s.digests.len())
	most := uint64(s.limits.History) + s.limits.Ahead
	return errors.Join(
		claim(held <= s.limits.QueueCapacity, "%d batches held, allowed are %d", held, s.limits.QueueCapacity),
		claim(remembered <= most, "%d digests remembered, allowed are %d", remembered, most),
		claim(len(s.marks) <= s.limits.MaxCheckpoints, "%d checkpoints open, allowed are %d", len(s.marks), s.limits.MaxCheckpoints))
}
