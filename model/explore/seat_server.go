package explore

import (
	"slices"

	"github.com/tidemark/tidemark/statemachine"
)

// The actions of the server towards the collector, by their names in Seat.tla. Each takes its step on a copy of the
// machine's stream and seat.

// DoPush tells the owner the watermark.
func (e *seatExpander) DoPush() {
	if !e.from.up {
		return
	}
	e.loadSeat()
	if conn, watermark, ok := e.seat.Push(e.now().stream); ok {
		w := e.next(0)
		w.replies[conn-1].push(newAnswer(statemachine.Ack, watermark))
		e.keepSeat(w)
	}
}

// DoLeave: the server notices that the collector left the connection that owns the stream.
func (e *seatExpander) DoLeave() {
	owner := e.seats.at(e.from.seat).owner
	gone, moved := e.from.mode == down || e.from.mode == refused, e.from.conn != owner
	if !e.from.up || owner == 0 || !gone && !moved {
		return
	}
	w := e.next(0)
	e.halves(gone, moved)
	e.loadSeat()
	e.seat.Leave(uint64(owner))
	e.keepSeat(w)
}

// hear begins the world in which the server took the next message of a connection, if that is what is asked for.
func (e *seatExpander) hear(conn uint8, what message) (*seatWorld, message) {
	m := e.from.wire[conn-1][0]
	if !e.from.up || m.what() != what {
		return nil, 0
	}
	w := e.next(conn)
	w.wire[conn-1].pop()
	return w, m
}

// fence tells a connection that it is over, unless it is the one that took over.
func fence(w *seatWorld, older uint64, conn uint8) {
	if older != 0 && older != uint64(conn) {
		w.replies[older-1].push(newAnswer(fenced, 0))
	}
}

// DoHello answers a HELLO.
func (e *seatExpander) DoHello(conn uint8) {
	w, m := e.hear(conn, sayHello)
	if w == nil {
		return
	}
	e.loadSeat()
	welcome, older, reply := e.seat.Hello(e.now().stream, uint64(conn), m.hello())
	if reply != statemachine.Welcomed {
		w.replies[conn-1].push(newAnswer(reply, 0))
		return
	}
	fence(w, older, conn)
	w.replies[conn-1].push(newWelcome(&welcome))
	if !e.WaitReady {
		e.loadStream()
		e.takeSeat(w, conn)
		return
	}
	e.keepSeat(w)
}

// DoReady answers a READY.
func (e *seatExpander) DoReady(conn uint8) {
	w, _ := e.hear(conn, sayReady)
	if w == nil {
		return
	}
	e.loadSeat()
	e.loadStream()
	owner := e.seat.Owner()
	if e.takeSeat(w, conn) {
		fence(w, owner, conn)
	} else {
		w.replies[conn-1].push(newAnswer(fenced, 0))
	}
}

// takeSeat is TakeSeat on the stream and the seat at hand: what is not in the store goes there before anything else
// happens. It says false when the connection is fenced.
func (e *seatExpander) takeSeat(w *seatWorld, conn uint8) bool {
	anchored := e.now().Anchored
	lost, stored, ok := e.seat.Ready(e.stream, uint64(conn))
	if !ok {
		return false
	}
	for _, r := range lost {
		w.lost |= between(r)
	}
	e.keepStream(w)
	e.keepSeat(w)
	if !stored {
		w.stored = e.seats.at(w.seat).image
		if !anchored {
			w.store = e.streams.at(w.stream).image
		}
	}
	return true
}

// DoReceive takes a batch, or refuses it. The specification answers RECEIVED, CONFLICT and STALE with nothing.
func (e *seatExpander) DoReceive(conn uint8) {
	w, m := e.hear(conn, sayBatch)
	if w == nil {
		return
	}
	e.loadSeat()
	if slices.Contains(e.Undecodable, m.id()) {
		if e.seat.Nack(uint64(conn), uint64(m.id())) {
			w.replies[conn-1].push(newAnswer(nack, uint64(m.id())))
			e.keepSeat(w)
		}
		return
	}
	e.loadStream()
	batch := statemachine.Batch{ID: uint64(m.id()), Digest: uint64(m.life()), Records: 1}
	reply, ok := e.seat.Receive(e.stream, uint64(conn), batch)
	if !ok {
		return
	}
	if reply == statemachine.QueueFull {
		w.replies[conn-1].push(newAnswer(statemachine.Resend, batch.ID))
	}
	e.keepStream(w)
	e.keepSeat(w)
}

// DoSkip takes a collector's word that it gives a batch up.
func (e *seatExpander) DoSkip(conn uint8) {
	w, m := e.hear(conn, saySkip)
	if w == nil {
		return
	}
	e.loadSeat()
	e.loadStream()
	if e.seat.Skip(e.stream, uint64(conn), uint64(m.id())) {
		w.skipped |= e.one(m.id(), m.life())
		e.keepStream(w)
	}
	e.keepSeat(w)
}

// DoRefuse refuses a batch for now, before the stream sees it.
func (e *seatExpander) DoRefuse(conn uint8) {
	m := e.from.wire[conn-1][0]
	if e.from.denied >= e.MaxDenied || !e.seats.at(e.from.seat).seat.Takes(uint64(conn), uint64(m.id())) {
		return
	}
	w, m := e.hear(conn, sayBatch)
	if w == nil {
		return
	}
	w.denied++
	e.loadSeat()
	if e.seat.Refuse(uint64(conn), uint64(m.id())) {
		w.replies[conn-1].push(newAnswer(statemachine.Resend, uint64(m.id())))
	}
	e.keepSeat(w)
}
