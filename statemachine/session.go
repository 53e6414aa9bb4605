package statemachine

// MaxRefused is how many separate ranges of refused numbers a connection may owe before the host
// closes it: beyond that it is not a collector that sends again what was refused.
const MaxRefused = 1024

// Session is one dialect-1 connection of a stream: the rules of System.tla that keep a collector
// from being told more than this connection can know. The zero value is a connection just opened.
// One goroutine at a time, the same that uses the stream.
type Session struct {
	named   uint64 // highest number accepted on this connection
	told    uint64 // highest watermark it was told
	refused ranges // numbers it was refused, not accepted since
}

// Receive is Serve of a batch: while a lower number is refused it answers Retry, otherwise what the
// stream answers. Any answer but Received is remembered as a refusal.
func (c *Session) Receive(s *Stream, b Batch) Reply {
	reply := Retry
	if !c.blocked(b.ID) {
		reply = s.Receive(b)
	}
	if reply != Received {
		c.Refuse(b.ID)
		return reply
	}
	c.named = max(c.named, b.ID)
	c.refused.remove(b.ID)
	return Received
}

// Refuse is Deny: the host answered a batch itself, without asking the stream (no memory, too large,
// not decodable). What the collector was told to forget it will not send again, so that holds
// nothing back.
func (c *Session) Refuse(id uint64) {
	if id > c.told {
		c.refused.add(id, id)
	}
}

// Forget follows a Rebase of the stream: what was refused below first will not come, and holds nothing
// back any more.
func (c *Session) Forget(first uint64) { c.refused.removeBelow(first) }

// Full tells whether the connection owes too much and must be closed.
func (c *Session) Full() bool { return len(c.refused) >= MaxRefused }

// Commit is Serve of a commit. Ack needs a proof that the connection speaks of the same batches: a
// number at or above the one asked about was accepted on it, and none at or below was refused.
// Without it the answer is Resend: the batch comes again, is recognised, and costs nothing. The
// watermark that goes with Ack never covers what this connection has not sent.
func (c *Session) Commit(s *Stream, id uint64) (Reply, uint64) {
	reply := c.answer(s, id)
	if reply != Ack {
		return reply, 0
	}
	watermark := min(s.committed, c.named)
	if len(c.refused) > 0 {
		watermark = min(watermark, c.refused[0].First-1)
	}
	c.told = max(c.told, watermark)
	return Ack, watermark
}

func (c *Session) answer(s *Stream, id uint64) Reply {
	if len(c.refused) > 0 && c.refused[0].First <= id {
		return Retry
	}
	if id > s.committed || id <= c.named {
		reply, _ := s.Commit(id)
		return reply
	}
	if _, known := s.digests.get(id); known {
		return Resend
	}
	return Pending
}

func (c *Session) blocked(id uint64) bool { return len(c.refused) > 0 && c.refused[0].First < id }
