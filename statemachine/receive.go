package statemachine

// Wanted tells whether the number was never accepted, or its payload is missing here. Above MaxNumber
// none is.
func (s *Stream) Wanted(id uint64) bool {
	return id > s.received && id <= MaxNumber || s.missing.contains(id)
}

// near tells whether a number never accepted is within Ahead: what is remembered above the watermark
// is bounded. Numbers with gaps by nature are counted, not measured.
func (s *Stream) near(id uint64) bool {
	if s.limits.Sparse {
		return uint64(s.digests.above(s.committed)) < s.limits.Ahead
	}
	return id-s.committed <= s.limits.Ahead
}

// Room tells whether a wanted number would be taken now; a missing one always is near enough.
func (s *Stream) Room(id uint64) bool {
	return !s.halted && !s.Full() && (id <= s.received || s.near(id))
}

// ReceiveReply is what Receive would answer to a batch of this number and digest.
func (s *Stream) ReceiveReply(id, digest uint64) Reply {
	if s.Wanted(id) {
		if s.Room(id) {
			return Received
		}
		return QueueFull
	}
	switch sum, known := s.digests.get(id); {
	case !known:
		return Stale // never accepted, or too long ago to tell
	case sum != digest:
		return Conflict // the number is taken
	default:
		return Received // sent again: once is enough
	}
}

// Receive takes a batch into the queue when it is wanted and there is room, and answers. The stream
// must be anchored, and the batch has at least one record. Whatever number a collector sends is answered.
func (s *Stream) Receive(b Batch) Reply {
	must(s.anchored && b.Records >= 1, "Receive", b.ID)
	if !s.Wanted(b.ID) || !s.Room(b.ID) {
		return s.ReceiveReply(b.ID, b.Digest)
	}
	s.hold(b)
	fresh := b.ID > s.received
	if fresh {
		if !s.limits.Sparse {
			s.missing.add(s.received+1, b.ID-1)
		}
		s.received = b.ID
	} else {
		s.missing.remove(b.ID)
	}
	if s.digests.set(b.ID, b.Digest) || fresh || s.limits.KeepPayloads {
		s.changes++
	}
	return Received
}
