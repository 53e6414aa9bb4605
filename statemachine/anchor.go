package statemachine

// CanAnchor tells whether the stream still waits for its first number.
func (s *Stream) CanAnchor() bool { return !s.anchored }

// Anchor fixes where the numbers begin: id is the first the collector uses, 1 or more. The host must
// make the image durable before it answers the first RECEIVED: after a crash it tells a lost batch
// from one that was never sent. In dialect 1 id is 1, or what the operator said, never what happens
// to come first.
func (s *Stream) Anchor(id uint64) {
	must(s.CanAnchor() && id >= 1 && id <= MaxNumber, "Anchor", id)
	s.anchored, s.received, s.committed = true, id-1, id-1
}

// Lost is what Rebase(first) would give up: the numbers below first that are missing or were never
// seen. The host must report them aloud.
func (s *Stream) Lost(first uint64) []Range {
	lost := append(ranges(nil), s.missing...)
	if first > s.received+1 {
		lost.add(s.received+1, first-1)
	}
	if i := lost.search(first); i < len(lost) {
		if lost[i].First < first {
			lost[i].Last = first - 1
			i++
		}
		lost = lost[:i]
	}
	return lost
}

// Rebase says that the collector holds nothing below first, 1 to MaxNumber+1: what is missing there
// will never come. A first far above Received+1+Ahead makes every number in between stale for good,
// so a host refuses it unless an operator saw the range and agreed.
func (s *Stream) Rebase(first uint64) {
	must(s.anchored && first >= 1 && first <= MaxNumber+1, "Rebase", first)
	if len(s.missing) > 0 && s.missing[0].First < first {
		s.missing.removeBelow(first)
		s.changes++
	}
	if first-1 > s.received {
		s.received = first - 1
		s.changes++
	}
}

// CanSkip tells whether the number can be given up: it is wanted here, and near enough to be remembered.
func (s *Stream) CanSkip(id uint64) bool {
	return s.anchored && s.Wanted(id) && (id <= s.received || s.near(id))
}

// Skip says that the collector gives one number up, which the host refused for good: it is not missing any more, and is
// lost. The host must report it aloud.
func (s *Stream) Skip(id uint64) {
	must(s.CanSkip(id), "Skip", id)
	if id > s.received {
		if !s.limits.Sparse {
			s.missing.add(s.received+1, id-1)
		}
		s.received = id
	} else {
		s.missing.remove(id)
	}
	s.changes++
}
