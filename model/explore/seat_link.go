package explore

import "github.com/tidemark/tidemark/statemachine"

// The actions of the collector, by their names in Seat.tla. It decides; the world has its connection.

// other is the connection that the collector opens next.
func other(conn uint8) uint8 {
	if conn == 1 {
		return 2
	}
	return 1
}

// Connect opens the next connection. Of the one before the last, nothing is heard any more.
func (e *seatExpander) Connect() {
	if e.from.mode != down || !e.from.up {
		return
	}
	w := e.next(0)
	w.conn, w.mode = other(w.conn), asked
	e.loadCollector()
	w.wire[w.conn-1] = line[message]{newHello(e.collector.Connect())}
	w.replies[w.conn-1] = line[answer]{}
	e.keepCollector(w)
	e.loadSeat()
	e.seat.Leave(uint64(w.conn))
	e.keepSeat(w)
}

// Produce makes the next batch.
func (e *seatExpander) Produce() {
	id := e.col().next
	if !e.col().mayProduce || id > e.LastBatch {
		return
	}
	w := e.next(0)
	e.loadCollector()
	e.collector.Produce()
	e.keepCollector(w)
	w.made |= e.one(id, w.life)
}

// buffer is what the collector holds.
func (e *seatExpander) buffer(w *seatWorld) contents {
	return w.made &^ e.upTo(e.collectors.at(w.col).first-1)
}

// SendBatch sends a batch, or that it is given up.
func (e *seatExpander) SendBatch() {
	if e.from.mode != ready || e.from.wire[e.from.conn-1].len() >= int(e.Depth) {
		return
	}
	e.loadCollector()
	id, skip, ok := e.collector.SendBatch()
	if !ok {
		return
	}
	w := e.next(0)
	what := sayBatch
	if skip {
		what = saySkip
	}
	life := uint8(0)
	for e.buffer(w)&e.one(uint8(id), life) == 0 {
		life++
	}
	w.wire[w.conn-1].push(newMessage(what, uint8(id), life, 0))
	e.keepCollector(w)
}

// TakeReply reads the next answer and obeys it.
func (e *seatExpander) TakeReply() {
	if e.from.mode == down || e.from.replies[e.from.conn-1].len() == 0 {
		return
	}
	w := e.next(0)
	replies := &w.replies[w.conn-1]
	a := replies[0]
	replies.pop()
	e.loadCollector()
	switch a.code() {
	case statemachine.Welcomed:
		e.collector.Welcomed(a.welcome())
		w.mode = ready
		if e.WaitReady {
			w.wire[w.conn-1].push(newMessage(sayReady, 0, 0, 0))
		}
	case statemachine.Ack:
		e.collector.Acked(a.number())
	case statemachine.Resend:
		e.collector.SendAgain(a.number())
	case nack:
		e.collector.Nacked(a.number())
	default:
		w.mode = refused
		if e.collector.Ended(ends[a.code()]) {
			w.mode = down
		}
	}
	e.keepCollector(w)
}

var ends = map[statemachine.Reply]Ended{
	fenced: EndedFenced, statemachine.Rejected: EndedRejected, statemachine.Retired: EndedRetired,
	statemachine.Forgot: EndedForgot, statemachine.First: EndedFirst,
}

// anew is Anew: what the collector holds, it makes again under the numbers that it will get.
func (e *seatExpander) anew(w *seatWorld) {
	w.mode, w.made = down, 0
	w.instance++
	w.life++
	e.loadCollector()
	e.collector.Anew(instanceNames[w.instance])
	e.keepCollector(w)
}

// mayLose tells whether the collector may lose its buffer, or the end of it, once more.
func (e *seatExpander) mayLose() bool { return int(e.from.life)+1 < e.lives() }

// StartAnew begins another instance after one that was refused for good.
func (e *seatExpander) StartAnew() {
	if e.from.mode == refused && e.mayLose() {
		e.anew(e.next(0))
	}
}

// The faults of the collector.

// Break cuts the connection, as the collector sees it: the server may hear what is on its way.
func (e *seatExpander) Break() {
	if e.from.mode == down || e.from.mode == refused || e.from.breaks >= e.MaxBreaks {
		return
	}
	w := e.next(0)
	w.breaks++
	w.mode = down
	e.loadCollector()
	e.collector.Disconnect()
	e.keepCollector(w)
}

// Reset: the collector loses its disk.
func (e *seatExpander) Reset() {
	numbered := e.col().numbered
	if e.from.resets >= e.MaxResets || !e.mayLose() || !numbered && e.from.mode != asked {
		return
	}
	w := e.next(0)
	e.halves(numbered, e.from.mode == asked)
	w.resets++
	e.anew(w)
}

// Forget: the buffer comes back without its end, and with numbers up to any one.
func (e *seatExpander) Forget() {
	if e.from.forgets >= e.MaxForgets || !e.col().numbered || !e.mayLose() {
		return
	}
	for last := uint8(0); last+1 < e.col().next; last++ {
		w := e.next(last)
		w.forgets++
		w.mode = down
		w.made &= e.upTo(last)
		w.life++
		e.loadCollector()
		e.collector.Forget(uint64(last))
		e.keepCollector(w)
	}
}
