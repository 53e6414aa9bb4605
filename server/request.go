package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

// codes are the wire words for what the state machine answers.
var codes = map[statemachine.Reply]protocol.Code{
	statemachine.Received:  protocol.CodeReceived,
	statemachine.QueueFull: protocol.CodeQueueFull,
	statemachine.Retry:     protocol.CodeRetry,
	statemachine.Conflict:  protocol.CodeConflict,
	statemachine.Stale:     protocol.CodeStale,
	statemachine.Ack:       protocol.CodeAck,
	statemachine.Resend:    protocol.CodeResend,
	statemachine.Pending:   protocol.CodePending,
}

func (s *Server) queueFull() protocol.Reply {
	return protocol.Reply{Code: protocol.CodeQueueFull, Wait: s.options.RetryAfter}
}

// authenticate takes the first line of a connection. When it returns errBye with a stream, the
// connection has the seat.
func (c *connection) authenticate(ctx context.Context, req protocol.Request, bad error) error {
	name, known := "", false
	if bad == nil && req.Command == protocol.CommandAuth {
		name, known = c.server.options.Auth(req.Token)
	}
	if !known {
		c.server.counters.grumble(c.server.log, "", "authentication failed", "peer", c.conn.RemoteAddr().String())
		c.server.counters.refused.WithLabelValues("auth-failed").Inc()
		c.out.add(protocol.Reply{Code: protocol.CodeAuthFailed})
		return errBye
	}
	st := c.server.stream(name)
	if !st.sit(ctx, c.server.options.SeatWait) {
		c.server.counters.grumble(c.server.log, name, "another connection of this collector is alive")
		c.server.counters.refused.WithLabelValues("rejected").Inc()
		c.out.add(protocol.Reply{Code: protocol.CodeRejected})
		return errBye
	}
	c.stream = st
	c.out.add(protocol.Reply{Code: protocol.CodeAck})
	return errBye
}

// request answers one line of an authenticated connection.
func (c *connection) request(ctx context.Context, req protocol.Request, bad error) error {
	if err := c.out.uncrowd(ctx); err != nil { // the peer asks on behind replies that wait
		return err
	}
	if bad != nil {
		return c.badRequest(bad)
	}
	switch req.Command {
	case protocol.CommandBatch:
		return c.batch(req.ID, req.Payload)
	case protocol.CommandCommit:
		c.commit(req.ID)
	default: // a second AUTH changes nothing
		c.out.add(protocol.Reply{Code: protocol.CodeBadRequest})
	}
	return nil
}

// batch answers BATCH: decode, copy, ask the machine, wake the pipeline.
func (c *connection) batch(id uint64, payload []byte) error {
	room, err := c.records(payload)
	if err != nil {
		return c.deny(id, codeOf(err), err)
	}
	if err := c.server.anchor(c.stream); err != nil {
		return c.deny(id, protocol.CodeQueueFull, err)
	}
	b := statemachine.Batch{ID: id, Digest: xxhash.Sum64(room), Records: 1, Payload: room}
	v, taken := c.receive(b)
	if v.gap.First > 0 {
		c.server.counters.grumble(c.server.log, c.stream.name, "the collector skipped numbers: the watermark waits until they come or are given up",
			"first", v.gap.First, "last", v.gap.Last, "reply", v.code.String(),
			"command", fmt.Sprintf("tidemark forget %s --below %d", c.stream.name, id))
	}
	if taken {
		c.arena.keep(room)
		c.server.pipeline.touched(c.stream)
	}
	if v.code != protocol.CodeReceived {
		return c.answered(id, v.code, v.why)
	}
	c.batches++
	c.warnDeaf()
	if !v.held {
		c.out.add(protocol.Reply{Code: protocol.CodeReceived})
	}
	return nil
}

// records is the payload as the one record that it is, in the encoding of a batch, in the arena.
func (c *connection) records(payload []byte) ([]byte, error) {
	record := payload
	if c.server.options.Packets != nil {
		var err error
		if record, err = c.server.options.Packets.Decode(nil, payload); err != nil {
			return nil, err
		}
	}
	if err := c.server.fits(record); err != nil {
		return nil, err
	}
	return protocol.AppendRecord(c.arena.room(len(record)+binary.MaxVarintLen64), record), nil
}

// verdict is what a batch is told.
type verdict struct {
	code protocol.Code
	why  string             // it was not received
	held bool               // RECEIVED is in the outbox, held back until a checkpoint covers the batch
	gap  statemachine.Range // numbers that it skipped
}

// receive asks the machine under the stream's lock, and tells whether the payload was taken. A batch
// that is here already needs no memory; one that would need some that is not there is refused before
// the machine sees it.
func (c *connection) receive(b statemachine.Batch) (v verdict, taken bool) {
	st, size := c.stream, int64(len(b.Payload))
	st.mu.Lock()
	defer st.mu.Unlock()
	wanted := st.machine.Wanted(b.ID)
	if wanted && !c.server.reserve(size) {
		c.session.Refuse(b.ID)
		return verdict{code: protocol.CodeQueueFull, why: fmt.Sprintf("all streams together hold %d bytes", c.server.memory.Load())}, false
	}
	before, _ := st.machine.Held()
	next := st.machine.Received() + 1
	reply := c.session.Receive(st.machine, b)
	after, _ := st.machine.Held()
	taken = after > before
	if wanted && !taken {
		c.server.memory.Add(-size)
	}
	if taken && st.behindSince.IsZero() {
		st.behindSince = time.Now()
	}
	v = verdict{code: codes[reply], why: explain(reply, st.machine)}
	if b.ID > next && !c.server.options.Limits.Sparse && reply != statemachine.Retry { // with RETRY they were refused, and come again
		v.gap = statemachine.Range{First: next, Last: b.ID - 1}
	}
	if v.held = c.server.options.Durable && reply == statemachine.Received && b.ID > st.machine.Committed(); v.held {
		c.out.hold(b.ID, time.Now().Add(c.server.options.ReceivedWait))
	}
	return v, taken
}

// explain says in words what the machine's answer to a batch means.
func explain(reply statemachine.Reply, m *statemachine.Stream) string {
	switch {
	case reply == statemachine.Received:
		return ""
	case reply == statemachine.Conflict:
		return "the number is taken by other bytes"
	case reply == statemachine.Stale:
		return "the number is not wanted, and too old to compare"
	case reply == statemachine.Retry:
		return "a lower number was refused and has not come again"
	case m.Halted():
		return "the stream is halted"
	case m.Full():
		return "the queue is full"
	default:
		return "the number is too far above the watermark"
	}
}

// commit answers COMMIT; it changes nothing.
func (c *connection) commit(id uint64) {
	c.commits++
	c.stream.mu.Lock()
	reply, watermark := c.session.Commit(c.stream.machine, id)
	c.stream.mu.Unlock()
	c.out.add(protocol.Reply{Code: codes[reply], Watermark: watermark})
}

// refuse tells the session that a batch was refused without asking the stream.
func (c *connection) refuse(id uint64) {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	c.session.Refuse(id)
}

// deny refuses a batch before the stream sees it.
func (c *connection) deny(id uint64, code protocol.Code, why error) error {
	c.refuse(id)
	return c.answered(id, code, why.Error())
}

// answered adds a reply to a batch that is not RECEIVED, and ends a connection that owes too much.
func (c *connection) answered(id uint64, code protocol.Code, why string) error {
	c.server.counters.grumble(c.server.log, c.stream.name, "batch refused", "batch", id,
		"reply", code.String(), "reason", why)
	reply := protocol.Reply{Code: code}
	if code == protocol.CodeQueueFull {
		reply = c.server.queueFull()
	}
	c.out.add(reply)
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	if c.session.Full() {
		c.server.counters.refused.WithLabelValues("refused-set").Inc()
		return fmt.Errorf("%d ranges of batches were refused and not sent again", statemachine.MaxRefused)
	}
	return nil
}

// badRequest answers a line that is no request. A batch whose number can't be read leaves nothing to
// remember; with sparse numbering its absence could not be seen later, so the connection ends.
func (c *connection) badRequest(bad error) error {
	var e *protocol.Error
	if !errors.As(bad, &e) {
		return bad
	}
	c.server.counters.grumble(c.server.log, c.stream.name, "bad request", "error", e.Error())
	if e.ID != 0 && e.Command == protocol.CommandBatch {
		return c.deny(e.ID, e.Code, e)
	}
	c.out.add(protocol.Reply{Code: e.Code})
	if c.server.options.Limits.Sparse && e.Command == protocol.CommandBatch {
		c.server.counters.refused.WithLabelValues("unreadable-number").Inc()
		return fmt.Errorf("a batch without a readable number: %w", e)
	}
	return nil
}

func codeOf(err error) protocol.Code {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return protocol.CodeDecodeFailed
}

const deafAfter = 1000

// warnDeaf warns, once, of a collector that never asks what it may forget: it forgets on RECEIVED.
func (c *connection) warnDeaf() {
	if c.batches == deafAfter && c.commits == 0 && !c.server.options.Durable {
		c.server.log.Warn("the collector never asks COMMIT: if it forgets on RECEIVED, a crash loses what is not checkpointed; see --received durable",
			"collector", c.stream.name, "batches", c.batches)
	}
}

// reserve takes n bytes of the memory that all streams share, if they are there.
func (s *Server) reserve(n int64) bool {
	if s.memory.Add(n) <= s.options.TotalBytes {
		return true
	}
	s.memory.Add(-n)
	return false
}

// fits tells whether the sink can take the record as it is.
func (s *Server) fits(record []byte) error {
	at := -1
	if s.lines {
		at = bytes.IndexByte(record, '\n')
	}
	if at < 0 {
		return nil
	}
	return &protocol.Error{
		Code: protocol.CodeDecodeFailed, Command: protocol.CommandBatch, Offset: at,
		Message: "the record holds LF, which ends a record in this sink", Allowed: "any other byte, or framing=length",
	}
}
