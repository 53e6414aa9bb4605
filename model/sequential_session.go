package model

import "github.com/tidemark/tidemark/statemachine"

// SequentialSession is a connection as System.tla has it: named, refused and told, with the operators that decide
// what it is answered. The zero value is a connection just opened.
type SequentialSession struct {
	named, told uint64
	refused     set
}

// Blocked tells whether a lower number was refused and holds this one back.
func (c *SequentialSession) Blocked(id uint64) bool {
	return len(c.refused) > 0 && c.refused.least() < id
}

// Proven tells whether the connection has shown that it speaks of the same batches, up to this one.
func (c *SequentialSession) Proven(id uint64) bool { return id <= c.named }

// Answer is the answer to a commit; the watermark of Ack is Told.
func (c *SequentialSession) Answer(s *Sequential, id uint64) statemachine.Reply {
	_, remembered := s.digests[id]
	switch {
	case len(c.refused) > 0 && c.refused.least() <= id:
		return statemachine.Retry
	case id > s.committed || c.Proven(id):
		reply, _ := s.Commit(id)
		return reply
	case remembered:
		return statemachine.Resend
	default:
		return statemachine.Pending
	}
}

// Told is the watermark that this connection may be told.
func (c *SequentialSession) Told(s *Sequential) uint64 {
	if len(c.refused) > 0 {
		return min(s.committed, c.named, c.refused.least()-1)
	}
	return min(s.committed, c.named)
}

// Refuse is Deny: a batch was refused before the stream saw it.
func (c *SequentialSession) Refuse(id uint64) {
	if id > c.told {
		c.refused = union(c.refused, set{id: true})
	}
}

// Receive is Serve of a batch.
func (c *SequentialSession) Receive(s *Sequential, b statemachine.Batch) statemachine.Reply {
	if c.Blocked(b.ID) {
		return c.Serve(b.ID, statemachine.Retry)
	}
	return c.Serve(b.ID, s.Receive(b))
}

// Serve remembers what a batch was answered.
func (c *SequentialSession) Serve(id uint64, reply statemachine.Reply) statemachine.Reply {
	if reply == statemachine.Received {
		c.named = max(c.named, id)
		delete(c.refused, id)
	} else {
		c.Refuse(id)
	}
	return reply
}

// Commit is Serve of a commit.
func (c *SequentialSession) Commit(s *Sequential, id uint64) (statemachine.Reply, uint64) {
	reply := c.Answer(s, id)
	if reply != statemachine.Ack {
		return reply, 0
	}
	c.told = max(c.told, c.Told(s))
	return reply, c.Told(s)
}

// State copies the connection into st.
func (c *SequentialSession) State(st *statemachine.SessionState) {
	*st = statemachine.SessionState{Named: c.named, Told: c.told, Refused: c.refused.ranges()}
}
