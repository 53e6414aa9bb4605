package statemachine

// Commit answers whether the collector may forget batch id; it changes nothing. With Ack comes the
// watermark: everything at or below it may be forgotten. A connection must not pass the answer on as
// it is, see [Session.Commit].
func (s *Stream) Commit(id uint64) (Reply, uint64) {
	switch {
	case id <= s.committed:
		return Ack, s.committed
	case s.missing.contains(id):
		return Resend, 0 // was accepted or skipped, its payload is not here
	case id > s.received:
		return Retry, 0 // never seen
	default:
		return Pending, 0
	}
}
