package explore

import "github.com/tidemark/tidemark/statemachine"

// The actions of the collector, by their names in System.tla.

// Connect opens a connection; the collector re-sends what it has to.
func (e *expander) Connect() {
	if e.from.connected || !e.from.up {
		return
	}
	w := e.next(0)
	w.hangUp()
	w.connected = true
	w.unsent |= w.flying
	if e.GoBackN {
		w.unsent = w.buffer
	}
	w.flying = 0
}

// Produce makes the next batch, of numbers with gaps also the one after.
func (e *expander) Produce() {
	if e.from.buffer.len() >= int(e.Window) {
		return
	}
	last := e.from.produced + 1
	if e.Limits.Sparse {
		last++
	}
	for id := e.from.produced + 1; id <= min(last, e.LastBatch); id++ {
		w := e.next(id)
		w.produced = id
		w.made |= one(id)
		w.buffer |= one(id)
		w.unsent |= one(id)
	}
}

// spare is Spare: whether another request may be on its way.
func (e *expander) spare() bool { return e.from.wire.len()+e.from.replies.len() < int(e.Depth) }

// SendBatch sends the lowest unsent batch, or any.
func (e *expander) SendBatch() {
	if !e.from.connected || e.from.unsent == 0 || !e.spare() {
		return
	}
	for id := range e.from.unsent.each {
		w := e.next(id)
		w.wire.push(request(id))
		w.unsent &^= one(id)
		w.flying |= one(id)
		if !e.AnyOrder {
			return
		}
	}
}

// SendCommit asks about any batch in the buffer.
func (e *expander) SendCommit() {
	if !e.from.connected || !e.spare() {
		return
	}
	for id := range e.from.buffer.each {
		e.next(id).wire.push(request(id) | commitRequest)
	}
}

// TakeReply reads the next reply and obeys it.
func (e *expander) TakeReply() {
	if !e.from.connected || e.from.replies.len() == 0 {
		return
	}
	w := e.next(0)
	r := w.replies[0]
	w.replies.pop()
	id, code := r.to().id(), r.code()
	switch {
	case !r.to().commit():
		w.flying &^= one(id)
		if code != statemachine.Received {
			w.unsent |= one(id) & w.buffer
		}
	case code == statemachine.Ack:
		w.buffer = w.buffer.above(r.watermark())
		w.unsent = w.unsent.above(r.watermark())
		w.flying = w.flying.above(r.watermark())
	case code == statemachine.Resend || code == statemachine.Retry:
		w.unsent |= one(id) & w.buffer &^ w.flying
	}
}
