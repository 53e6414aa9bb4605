package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

// errStopping ends a connection because the server stops.
var errStopping = errors.New("the ingress stops")

// serve2 serves a collector in dialect 2, as long as the connection lives.
func (c *connection) serve2(ctx context.Context, quiet func()) {
	c.number = c.server.numbers.Add(1)
	c.parser2.MaxBatch = c.server.maxBatch()
	err := c.converse(ctx)
	quiet()
	if errors.Is(err, errStopping) {
		c.farewell(ctx)
	}
	c.out.flush()
	c.giveUpSeat()
	if errors.Is(err, errBye) || errors.Is(err, errStopping) {
		c.linger()
	}
	if c.stream != nil {
		c.server.log.Debug("disconnected", "collector", c.stream.name, "reason", err.Error())
	}
}

// converse reads messages and acts on each, until that ends the connection or the peer does.
func (c *connection) converse(ctx context.Context) error {
	for {
		req, n, bad := c.parser2.Next(c.input.unread())
		c.input.used(n)
		if req.Command != 0 || bad != nil {
			if err := c.message(ctx, req, bad); err != nil {
				return err
			}
			continue
		}
		if err := c.out.send(); err != nil {
			return err
		}
		switch err := c.read2(); {
		case c.over.Load():
			return errBye
		case c.stopping.Load():
			return errStopping
		case err != nil:
			return err
		}
	}
}

// read2 reads more. A peer that was told nothing for a third of the idle limit is sent PING, so that both sides know
// that the other lives.
func (c *connection) read2() error {
	idle := c.server.options.IdleTimeout
	for began := time.Now(); ; { // before that, nobody listened
		if c.ready {
			by := began.Add(idle)
			if ping := c.out.quiet().Add(idle / 3); ping.Before(by) {
				by = ping
			}
			c.readBy(by)
		}
		if c.over.Load() || c.stopping.Load() { // it may have come before the limit was set
			return nil
		}
		err := c.input.fill(c.conn, c.parser2.Need())
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded) || c.over.Load() || c.stopping.Load():
			return err
		case !c.ready:
			c.timedOut("auth-timeout")
			return err
		case time.Since(began) >= idle:
			c.timedOut("idle-timeout")
			c.out.say(protocol.Reply2{Code: protocol.CodeError, Reason: protocol.CodeIdle, Text: "nothing came within the idle limit"})
			return errBye
		}
		c.rest()
		c.out.say(protocol.Reply2{Code: protocol.CodePing})
		if err := c.out.flush(); err != nil {
			return err
		}
	}
}

// rest gives back memory while nothing comes.
func (c *connection) rest() {
	c.input.rest()
	c.arena = arena{}
	c.out.rest()
	if c.stream != nil {
		c.stream.mu.Lock()
		defer c.stream.mu.Unlock()
		c.stream.machine.Trim()
	}
}

// message acts on one message: HELLO, READY, and then everything else.
func (c *connection) message(ctx context.Context, req protocol.Request2, bad error) error {
	switch cmd := req.Command; {
	case bad != nil:
		return c.badMessage(bad)
	case cmd == protocol.CommandPing:
		c.out.say(protocol.Reply2{Code: protocol.CodePong})
	case cmd == protocol.CommandPong:
	case cmd == protocol.CommandHello && c.stream == nil:
		return c.hello(ctx, req.Hello)
	case cmd == protocol.CommandReady && c.stream != nil && !c.ready:
		return c.takeSeat()
	case !c.ready || c.left || cmd == protocol.CommandHello || cmd == protocol.CommandReady:
		return c.end(protocol.CodeBadRequest, cmd.String()+" is not allowed now")
	case cmd == protocol.CommandBatch:
		return c.batch2(req)
	case cmd == protocol.CommandSkip:
		return c.skip(req.ID)
	case cmd == protocol.CommandBye:
		c.bye()
	}
	return nil
}

// badMessage answers what can't be read, or is too large.
func (c *connection) badMessage(bad error) error {
	var e *protocol.Error
	if !errors.As(bad, &e) {
		return bad
	}
	c.server.counters.grumble(c.server.log, c.name(), "bad message", "error", e.Error())
	switch {
	case e.Closes:
		return c.end(e.Code, e.Error())
	case !c.ready || c.left:
		return c.end(protocol.CodeBadRequest, e.Command.String()+" is not allowed now")
	}
	if takes, err := c.admits(e.ID); !takes {
		return err
	}
	c.nack(e.ID, e)
	return nil
}

// batch2 takes a batch: check, copy, ask the machine, wake the pipeline. What is received is not answered: an ACK comes
// when a checkpoint covers it.
func (c *connection) batch2(req protocol.Request2) error {
	if takes, err := c.admits(req.ID); !takes {
		return err
	}
	if err := c.server.decodable(req); err != nil {
		c.nack(req.ID, err)
		return nil
	}
	payload := append(c.arena.room(len(req.Payload)), req.Payload...)
	b := statemachine.Batch{ID: req.ID, Digest: xxhash.Sum64(payload), Records: req.Records, Payload: payload}
	reply, why, taken := c.receive2(b)
	if taken {
		c.arena.keep(payload)
		delete(c.nacked, req.ID)
		c.server.pipeline.touched(c.stream)
	}
	switch reply {
	case statemachine.QueueFull:
		c.resend(req.ID, why)
	case statemachine.Conflict, statemachine.Stale:
		c.sayNack(req.ID, codes[reply], why)
		return errBye // before an ACK covers the number: the collector has other bytes under it
	}
	return nil
}

// admits tells whether a batch is looked at. One beyond the window ends the connection.
func (c *connection) admits(id uint64) (takes bool, err error) {
	st := c.stream
	st.mu.Lock()
	takes = st.seat.Takes(c.number, id)
	committed := st.machine.Committed()
	st.mu.Unlock()
	if takes && id > committed && id-committed > c.server.windowBatches() {
		return false, c.end(protocol.CodeWindow, fmt.Sprintf("batch %d is beyond the window", id))
	}
	return takes, nil
}

// decodable tells whether the payload is what its header tells, and the sink can take it.
func (s *Server) decodable(req protocol.Request2) error {
	if err := protocol.CheckRecords(req.Payload, req.Records); err != nil || !s.lines {
		return err
	}
	for record := range protocol.Records(req.Payload) {
		if err := s.fits(record); err != nil {
			return err
		}
	}
	return nil
}

// receive2 asks the machine under the stream's lock, and tells whether the payload was taken.
func (c *connection) receive2(b statemachine.Batch) (reply statemachine.Reply, why string, taken bool) {
	st, size := c.stream, int64(len(b.Payload))
	st.mu.Lock()
	defer st.mu.Unlock()
	wanted := st.machine.Wanted(b.ID)
	if wanted && !c.server.reserve(size) {
		if c.stream.seat.Refuse(c.number, b.ID) {
			reply = statemachine.QueueFull
		}
		return reply, fmt.Sprintf("all streams together hold %d bytes", c.server.memory.Load()), false
	}
	before, _ := st.machine.Held()
	reply, _ = st.seat.Receive(st.machine, c.number, b) // not if it was fenced just now
	after, _ := st.machine.Held()
	taken = after > before
	if wanted && !taken {
		c.server.memory.Add(-size)
	}
	if taken && st.behindSince.IsZero() {
		st.behindSince = time.Now()
	}
	if reply != 0 && reply != statemachine.Received {
		why = explain(reply, st.machine)
	}
	return reply, why, taken
}

// resend asks for a batch, and all above it, once more.
func (c *connection) resend(id uint64, why string) {
	c.server.counters.grumble(c.server.log, c.stream.name, "batch refused", "batch", id, "reply", protocol.CodeResend.String(), "reason", why)
	c.out.say(protocol.Reply2{Code: protocol.CodeResend, ID: id, Wait: c.server.options.RetryAfter})
}

// nack refuses a batch for good before the stream sees it.
func (c *connection) nack(id uint64, why error) {
	st := c.stream
	st.mu.Lock()
	owed, wanted := st.seat.Nack(c.number, id), st.machine.Wanted(id)
	st.mu.Unlock()
	if !owed {
		return
	}
	if wanted {
		if c.nacked == nil {
			c.nacked = map[uint64]bool{}
		}
		c.nacked[id] = true
	}
	text, e := why.Error(), new(protocol.Error)
	if errors.As(why, &e) { // its code is told beside it
		text = e.Message + "; allowed: " + e.Allowed
	}
	c.sayNack(id, codeOf(why), text)
}

func (c *connection) sayNack(id uint64, reason protocol.Code, why string) {
	c.server.counters.grumble(c.server.log, c.stream.name, "batch refused for good", "batch", id, "reply", reason.String(), "reason", why)
	c.server.counters.nacks.WithLabelValues(reason.String()).Inc()
	c.out.say(protocol.Reply2{Code: protocol.CodeNack, ID: id, Reason: reason, Text: why})
}

// skip gives up a number that was refused for good on this connection. Any other that is wanted must come.
func (c *connection) skip(id uint64) error {
	st := c.stream
	st.mu.Lock()
	if !c.nacked[id] && st.seat.Takes(c.number, id) && st.machine.CanSkip(id) {
		st.mu.Unlock()
		return c.end(protocol.CodeBadRequest, fmt.Sprintf("SKIP %d without a NACK", id))
	}
	lost := st.seat.Skip(st.machine, c.number, id)
	st.mu.Unlock()
	if lost {
		delete(c.nacked, id)
		c.server.lose(st.name, "given up by the collector", statemachine.Range{First: id, Last: id})
		c.server.pipeline.touched(st)
	}
	return nil
}

// lose reports numbers that nobody will send any more.
func (s *Server) lose(collector, message string, lost ...statemachine.Range) {
	for _, r := range lost {
		s.counters.lost.WithLabelValues(collector).Add(float64(r.Last-r.First) + 1)
		s.log.Error(message, "collector", collector, "first", r.First, "last", r.Last)
	}
}

// end says why the ingress closes the connection.
func (c *connection) end(reason protocol.Code, why string) error {
	c.server.counters.refused.WithLabelValues(label(reason)).Inc()
	c.server.counters.grumble(c.server.log, c.name(), "connection closed", "reason", reason.String(), "error", why)
	c.out.say(protocol.Reply2{Code: protocol.CodeError, Reason: reason, Text: why})
	return errBye
}
