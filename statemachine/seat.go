package statemachine

import "slices"

// MaxRetired is how many superseded instances a seat remembers: the newest ones.
const MaxRetired = 16

// Seat is who may write a stream in dialect 2: the seat t of Seat.tla with one method for each of its operators. A
// collector's buffer has a name, its instance; the stream's numbers are those of one instance, and the newest connection
// of that instance writes. The zero value is the seat of a stream nobody has sent to.
//
// The host numbers its connections from 1, each number once. One goroutine at a time, the same that uses the stream. A
// Seat is a value: a copy is independent of the original.
type Seat struct {
	instance string   // whose numbers the stream has; "": nobody's
	retired  []string // superseded, oldest first; never changed in place

	owner  uint64 // the connection that writes; 0: none
	asker  uint64 // the connection that was welcomed and is not ready yet; 0: none
	asked  Hello  // what it said
	pushed uint64 // the highest watermark that the owner was told
	gap    uint64 // a number that the owner was refused for now: nothing above it is taken until it comes; 0: none
}

// Hello is what a collector says of itself when it connects. First is the lowest number that it holds, or its next one
// when it holds none; Next is the next number that it will use. Both are 0 when it has no numbers yet.
type Hello struct {
	Instance    string
	First, Next uint64
}

// Welcome is what a collector is told before it gets the seat: the stream as it will be.
type Welcome struct {
	Epoch     uint64
	Committed uint64
	Received  uint64
	Missing   []Range // that it has to send, of what it holds
	Lost      []Range // that nobody holds any more: the host must report them aloud
}

// SeatImage is what the store keeps of a seat.
type SeatImage struct {
	Instance string
	Retired  []string // at most MaxRetired, oldest first
}

// RestoreSeat begins a new life from a stored image, with nobody in the seat.
func RestoreSeat(img SeatImage) Seat {
	return Seat{instance: img.Instance, retired: slices.Clone(img.Retired)}
}

// Image is what the store must keep.
func (t *Seat) Image() SeatImage { return SeatImage{t.instance, slices.Clone(t.retired)} }

// Instance is whose numbers the stream has.
func (t *Seat) Instance() string { return t.instance }

// Owner is the connection that writes, or 0.
func (t *Seat) Owner() uint64 { return t.owner }

// Hello answers a HELLO on a connection. Of stream and store it changes nothing: the dead connection of a collector may
// still say it. The answer is Welcomed, or a reason to close the connection:
//
//   - Retired: another instance has superseded this one for good;
//   - Rejected: a connection of another instance is alive;
//   - Forgot: the next number was accepted here already, so the buffer has lost its tail;
//   - First: the numbers make no sense, or begin so far above what was received that all between would be lost.
//
// With Welcomed the connection may say READY next, and fenced is the one that wrote until now, if any: it was taken over,
// and the host tells it so and closes it.
func (t *Seat) Hello(s *Stream, conn uint64, h Hello) (w Welcome, fenced uint64, reply Reply) {
	if reply = t.HelloReply(s, h); reply != Welcomed {
		return Welcome{}, 0, reply
	}
	fenced = t.owner
	t.owner, t.asker, t.asked = 0, conn, h
	return h.welcome(s), fenced, Welcomed
}

// HelloReply is what Hello would answer.
func (t *Seat) HelloReply(s *Stream, h Hello) Reply {
	switch {
	case slices.Contains(t.retired, h.Instance):
		return Retired
	case h.Instance != t.instance && t.owner != 0:
		return Rejected
	case h.Next != 0 && h.Next <= s.received:
		return Forgot
	case !h.sensible() || !s.anchored && h.First > MaxNumber || s.anchored && h.tooFar(s):
		return First
	}
	return Welcomed
}

// tooFar tells whether the numbers begin so far above what was received that all between would be stale for good.
func (h Hello) tooFar(s *Stream) bool {
	return h.First > s.received+1 && h.First-s.received-1 > s.limits.Ahead
}

// sensible tells whether the numbers can be those of a buffer.
func (h Hello) sensible() bool {
	return h.First <= h.Next && h.Next <= MaxNumber+1 && (h.First == 0) == (h.Next == 0)
}

// first is where the numbers begin that the collector holds, or will make.
func (h Hello) first(s *Stream) uint64 {
	if h.First == 0 {
		return s.received + 1
	}
	return h.First
}

// welcome describes the stream as Ready will make it.
func (h Hello) welcome(s *Stream) Welcome {
	first := h.first(s)
	if !s.anchored {
		return Welcome{Epoch: s.epoch, Committed: first - 1, Received: first - 1}
	}
	missing := slices.Clone(s.missing)
	missing.removeBelow(first)
	return Welcome{
		Epoch: s.epoch, Committed: s.committed, Received: max(s.received, first-1),
		Missing: missing, Lost: s.Lost(first),
	}
}

// Ready answers a READY: the peer lives, and takes the seat. A fresh stream is anchored, another one rebased, and what
// nobody holds any more is given up: the host reports lost aloud. When stored is false the host makes the image of the
// stream (if it was not anchored) and of the seat durable before anything else happens on the connection. With ok false
// the connection was not welcomed, or another one has come since: it is told Fenced and closed.
func (t *Seat) Ready(s *Stream, conn uint64) (lost []Range, stored, ok bool) {
	if conn != t.asker || conn == 0 {
		return nil, true, false
	}
	first := t.asked.first(s)
	stored = s.anchored && t.instance == t.asked.Instance
	if s.anchored {
		lost = s.Lost(first)
		s.Rebase(first)
	} else {
		s.Anchor(first)
	}
	if t.instance != t.asked.Instance {
		t.supersede()
	}
	t.owner, t.asker, t.asked = conn, 0, Hello{}
	t.pushed, t.gap = 0, 0
	return lost, stored, true
}

// supersede makes the instance that asked the stream's.
func (t *Seat) supersede() {
	if t.instance != "" {
		t.retired = append(slices.Clone(t.retired), t.instance)
		t.retired = t.retired[max(0, len(t.retired)-MaxRetired):]
	}
	t.instance = t.asked.Instance
}

// Takes tells whether what comes under a number on a connection is looked at: the connection has the seat, and no lower
// number was refused for now. Everything else is dropped without an answer: the collector was told already.
func (t *Seat) Takes(conn, id uint64) bool {
	return conn != 0 && conn == t.owner && (t.gap == 0 || id <= t.gap)
}

// Receive takes a batch, if the connection may bring it; else ok is false and nothing is answered. The answer Received
// needs none on the wire, QueueFull is RESEND, Conflict and Stale are NACK.
func (t *Seat) Receive(s *Stream, conn uint64, b Batch) (reply Reply, ok bool) {
	if !t.Takes(conn, b.ID) {
		return 0, false
	}
	if reply = s.Receive(b); reply == QueueFull {
		t.gap = b.ID
	} else {
		t.took(b.ID)
	}
	return reply, true
}

// Refuse says that the host has no room for a batch now, without asking the stream. RESEND is owed when ok.
func (t *Seat) Refuse(conn, id uint64) (ok bool) {
	if ok = t.Takes(conn, id); ok {
		t.gap = id
	}
	return ok
}

// Nack says that the host refuses a batch for good, without asking the stream. NACK is owed when ok.
func (t *Seat) Nack(conn, id uint64) (ok bool) {
	if ok = t.Takes(conn, id); ok {
		t.took(id)
	}
	return ok
}

// Skip is the collector's word that it gives a number up, after a NACK. It is lost, when that is news: the host reports it.
func (t *Seat) Skip(s *Stream, conn, id uint64) (lost bool) {
	if !t.Takes(conn, id) {
		return false
	}
	t.took(id)
	if lost = s.CanSkip(id); lost {
		s.Skip(id)
	}
	return lost
}

func (t *Seat) took(id uint64) {
	if id == t.gap {
		t.gap = 0
	}
}

// Push is the watermark that the owner has not been told, and the connection to tell. With ok false there is nothing to
// tell, or nobody.
func (t *Seat) Push(s *Stream) (conn, watermark uint64, ok bool) {
	if t.owner == 0 || s.committed <= t.pushed {
		return 0, 0, false
	}
	t.pushed = s.committed
	return t.owner, t.pushed, true
}

// Leave ends a connection, whatever it was.
func (t *Seat) Leave(conn uint64) {
	if conn == 0 {
		return
	}
	if conn == t.owner {
		t.owner = 0
	}
	if conn == t.asker {
		t.asker, t.asked = 0, Hello{}
	}
}

// Free tells whether no connection has the seat or is about to take it.
func (t *Seat) Free() bool { return t.owner == 0 && t.asker == 0 }
