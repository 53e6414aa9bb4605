package statemachine

// CanEmit tells whether n batches can be given to the sink: at most one delivery is in flight.
func (s *Stream) CanEmit(n int) bool {
	return !s.halted && s.inflight == 0 && n >= 1 && n <= s.Queued()
}

// Emit moves the first n batches of the queue in flight and returns them, for the sink. The slice is
// valid until the delivery ends with Settle or Rollback; other actions leave it alone, so a host may
// write it out without holding its lock.
func (s *Stream) Emit(n int) []Batch {
	must(s.CanEmit(n), "Emit", uint64(n))
	s.inflight = n
	for _, b := range s.undelivered()[:n] { // a bulk copy costs more for the few that are usual
		s.emitted = append(s.emitted, b)
	}
	return s.emitted
}

// CanSettle tells whether a delivery of at least n batches is in flight.
func (s *Stream) CanSettle(n int) bool { return s.inflight > 0 && n >= 0 && n <= s.inflight }

// Settle ends the delivery: the sink took the first n batches in flight, the rest return to the
// front of the queue. With n = 0 it counts as failed, and MaxNacks failures in a row halt the stream.
func (s *Stream) Settle(n int) {
	must(s.CanSettle(n), "Settle", uint64(n))
	s.endDelivery()
	s.settled += n
	if n > 0 {
		s.nacks = 0
		return
	}
	s.nacks++
	s.halted = s.nacks >= s.limits.MaxNacks
}

func (s *Stream) endDelivery() {
	s.inflight = 0
	for i := range s.emitted {
		s.emitted[i].Payload = nil // released with the batch, not with the next delivery
	}
	s.emitted = s.emitted[:0]
}

// kept is how many settled batches checkpoint c covers, and whether it is 0 or open.
func (s *Stream) kept(c uint64) (int, bool) {
	if i := s.open(c); i >= 0 {
		return s.marks[i].Settled, true
	}
	return 0, c == 0
}

// CanRollback tells whether there is anything for the sink to lose beyond checkpoint c, which is 0 or
// open. One that was aborted, or forgotten at the bound, can't be kept: its outcome must be known first.
func (s *Stream) CanRollback(c uint64) bool {
	kept, open := s.kept(c)
	return open && (s.settled > kept || s.inflight > 0)
}

// Rollback says that the sink lost what it took since the barrier of checkpoint c, which may still
// complete; c is 0 when none may, and then all since the last completed one is lost. It will be
// delivered again, in the same order, and checkpoints after c are over.
func (s *Stream) Rollback(c uint64) {
	must(s.CanRollback(c), "Rollback", c)
	s.endDelivery()
	s.settled, _ = s.kept(c)
	for n := len(s.marks); n > 0 && s.marks[n-1].Checkpoint > c; n-- {
		s.marks = s.marks[:n-1]
	}
}

// CanResume tells whether the stream is halted.
func (s *Stream) CanResume() bool { return s.halted }

// Resume gives the sink of a halted stream another chance: an operator, or time, says so.
func (s *Stream) Resume() {
	must(s.CanResume(), "Resume", 0)
	s.nacks, s.halted = 0, false
}
