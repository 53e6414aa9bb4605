package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// reasons are the wire words for why a HELLO is refused.
var reasons = map[statemachine.Reply]protocol.Code{
	statemachine.Rejected: protocol.CodeRejected,
	statemachine.Retired:  protocol.CodeRetired,
	statemachine.Forgot:   protocol.CodeForgot,
	statemachine.First:    protocol.CodeFirst,
}

var refusals = map[statemachine.Reply]string{
	statemachine.Rejected: "a connection of another instance is alive",
	statemachine.Retired:  "another instance has superseded this one: start a new one",
	statemachine.Forgot:   "numbers from next on were accepted already, the buffer has lost them: start a new instance",
	statemachine.First:    "first is further above what was received than numbers are remembered, or above next",
}

// hello answers HELLO: it changes nothing but who may say READY, and takes the seat from an older connection.
func (c *connection) hello(ctx context.Context, h *protocol.Hello) error {
	name, known := c.server.options.Auth([]byte(h.Token))
	if !known || name != h.Collector {
		return c.end(protocol.CodeAuthFailed, "the token is not one of this collector")
	}
	st := c.server.stream(name)
	asked := statemachine.Hello{Instance: h.Instance, First: h.First, Next: h.Next}
	for began := time.Now(); ; {
		welcome, older, reply, taken := c.ask(st, asked)
		if taken { // by dialect 1, which says when it goes
			if st.sit(ctx, c.server.options.SeatWait-time.Since(began)) {
				<-st.taken
				continue
			}
			reply = statemachine.Rejected
		}
		if reply != statemachine.Welcomed {
			return c.end(reasons[reply], refusals[reply])
		}
		if older != nil {
			older.fence()
		}
		c.stream, c.window = st, c.server.windowBytes()
		c.out.say(protocol.Reply2{Code: protocol.CodeWelcome, Welcome: c.server.welcome(welcome, c.window)})
		return nil
	}
}

// ask asks the seat. Older is the connection that had it until now. With taken a connection of dialect 1 is in it.
func (c *connection) ask(st *stream, h statemachine.Hello) (w statemachine.Welcome, older *connection, reply statemachine.Reply, taken bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.occupied {
		select {
		case st.taken <- struct{}{}:
		default:
			return w, nil, 0, true
		}
	}
	w, fenced, reply := st.seat.Hello(st.machine, c.number, h)
	if reply != statemachine.Welcomed {
		if !st.occupied {
			<-st.taken
		}
		return w, nil, reply, false
	}
	st.occupied = true
	if fenced != 0 {
		older, st.connection = st.connection, nil
	}
	return w, older, reply, false
}

// welcome is the stream, and what the collector may send.
func (s *Server) welcome(w statemachine.Welcome, window uint64) *protocol.Welcome {
	return &protocol.Welcome{
		Epoch: w.Epoch, Committed: w.Committed, Received: w.Received,
		Missing: wireRanges(w.Missing), Lost: wireRanges(w.Lost),
		WindowBatches: s.windowBatches(), WindowBytes: window, MaxBatchBytes: s.maxBatch(),
		Idle: s.options.IdleTimeout, Server: s.options.Name,
	}
}

func wireRanges(list []statemachine.Range) []protocol.Range {
	wire := make([]protocol.Range, 0, len(list))
	for _, r := range list {
		wire = append(wire, protocol.Range(r))
	}
	return wire
}

// takeSeat answers READY: the peer lives. A first number and a change of instance are stored before anything else
// happens.
func (c *connection) takeSeat() error {
	st := c.stream
	st.anchoring.Lock()
	defer st.anchoring.Unlock()
	lost, change, ok := c.ready2(st)
	if !ok {
		return c.end(protocol.CodeFenced, "a newer connection has come")
	}
	c.server.lose(st.name, "nobody holds these batches any more", lost...)
	if change != nil {
		if err := c.server.options.Store.Anchor(c.server.life, *change); err != nil {
			if !errors.Is(err, store.ErrTransient) && c.server.life.Err() == nil {
				c.server.fail(fmt.Errorf("store the seat of %q: %w", st.name, err))
			}
			c.server.counters.grumble(c.server.log, st.name, "the seat could not be stored", "error", err.Error())
			c.goAway("the seat could not be stored")
			return errBye
		}
	}
	instance, seated := c.sitDown(st)
	if !seated {
		return c.end(protocol.CodeFenced, "a newer connection has come")
	}
	c.ready = true
	c.server.seats.Add(1)
	c.server.log.Debug("connected", "collector", st.name, "instance", instance)
	c.server.pipeline.touched(st)
	return nil
}

// sitDown begins the connection's time in the seat, which is stored, unless a newer one has come meanwhile. What
// completed since WELCOME is told now: no checkpoint may follow that would.
func (c *connection) sitDown(st *stream) (instance string, seated bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.anchorStored.Store(true)
	st.seatStored = true
	if st.seat.Owner() != c.number {
		return "", false
	}
	st.connection = c
	st.push()
	return st.seat.Instance(), true
}

// ready2 takes the seat, and says what must be stored: nil if nothing.
func (c *connection) ready2(st *stream) (lost []statemachine.Range, change *store.Change, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	lost, stored, ok := st.seat.Ready(st.machine, c.number)
	if !ok || stored && st.seatStored {
		return lost, nil, ok
	}
	st.seatStored = false // until it is; the next READY tries again
	image := st.seat.Image()
	change = &store.Change{Collector: st.name, Seat: &image}
	if !st.anchorStored.Load() {
		change.Delta = st.machine.AppendDelta(nil)
	}
	return lost, change, true
}

// fence ends a connection that a newer one has taken over.
func (c *connection) fence() {
	c.server.counters.refused.WithLabelValues(label(protocol.CodeFenced)).Inc()
	c.server.counters.grumble(c.server.log, c.name(), "connection closed", "reason", protocol.CodeFenced.String())
	c.out.say(protocol.Reply2{Code: protocol.CodeError, Reason: protocol.CodeFenced, Text: "a newer connection of this instance has come"})
	c.finish()
}

// finish wakes the reader, which sends what is left to send and closes the connection.
func (c *connection) finish() {
	c.over.Store(true)
	c.conn.SetReadDeadline(time.Unix(1, 0))
}

// giveUpSeat ends the connection's part in its stream.
func (c *connection) giveUpSeat() {
	st := c.stream
	if st == nil {
		return
	}
	if c.ready {
		c.server.seats.Add(-1)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.connection == c {
		st.connection = nil
	}
	st.seat.Leave(c.number)
	if st.occupied && st.seat.Free() {
		st.occupied = false
		<-st.taken
	}
}

// push leaves what the collector has not been told for its connection to send: the watermark, a new window, and BYE when
// it waits for that. It runs under the stream's lock.
func (st *stream) push() {
	c := st.connection
	if c == nil || c.number == 0 || c.over.Load() {
		return
	}
	_, watermark, moved := st.seat.Push(st.machine)
	bye := c.left && st.acknowledged()
	if !moved && !bye {
		return
	}
	p := push{watermark: watermark, bye: bye}
	if bytes := c.server.windowBytes(); bytes > 2*c.window || bytes < c.window/2 {
		p.batches, p.bytes, c.window = c.server.windowBatches(), bytes, bytes
	}
	c.out.push(p)
	if bye {
		c.finish()
	}
}

// acknowledged tells whether a checkpoint could move the watermark no further.
func (st *stream) acknowledged() bool {
	held, _ := st.machine.Held()
	return held == 0 && st.machine.Watermark() == st.machine.Committed()
}

// windowBatches is how many numbers above the watermark a collector may send: what a stream has room for.
func (s *Server) windowBatches() uint64 {
	return min(uint64(s.options.Limits.QueueCapacity), s.options.Limits.Ahead)
}

// windowBytes is a fair share of the memory, for each collector that is connected.
func (s *Server) windowBytes() uint64 {
	share := s.options.TotalBytes / max(1, s.seats.Load())
	if most := s.options.Limits.QueueBytes; most > 0 {
		share = min(share, most)
	}
	return uint64(max(share, minWindow))
}

// minWindow is the least window in bytes: one batch may always be sent.
const minWindow = 64 << 10

// maxBatch is the largest payload of a batch: it fits into a stream and into the memory.
func (s *Server) maxBatch() int {
	return int(min(int64(s.options.MaxLineBytes), s.options.TotalBytes, protocol.MaxCount))
}
