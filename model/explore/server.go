package explore

import "github.com/tidemark/tidemark/statemachine"

// The actions of the server towards the collector, by their names in System.tla. Each takes its step on
// a copy of the machine's stream and session.

// loadStream makes e.stream a copy of the stream in w.
func (e *expander) loadStream() { e.stream.CopyFrom(e.now().stream) }

// now is what is known of the stream at hand.
func (e *expander) now() *streamFacts { return e.streams.at(e.from.stream) }

// DoAnchor fixes the collector's first number, and stores it, before its first batch is served.
func (e *expander) DoAnchor() {
	if !e.from.up || !e.now().stream.CanAnchor() || e.from.wire[0] == 0 || e.from.wire[0].commit() {
		return
	}
	w := e.next(0)
	e.loadStream()
	e.stream.Anchor(uint64(w.first))
	e.keepStream(w)
	w.store = e.streams.at(w.stream).image
}

// Deny refuses a batch before the stream sees it.
func (e *expander) Deny() {
	r := e.from.wire[0]
	if !e.from.up || !e.from.connected || r == 0 || r.commit() || e.from.denied >= e.MaxDenied {
		return
	}
	w := e.next(0)
	w.denied++
	w.wire.pop()
	e.session.CopyFrom(e.sessions.at(w.session).session)
	e.session.Refuse(uint64(r.id()))
	e.keepSession(w)
	w.replies.push(newReply(r, statemachine.QueueFull, 0))
}

// Serve answers the next request.
func (e *expander) Serve() {
	r := e.from.wire[0]
	if !e.from.up || !e.from.connected || r == 0 || !r.commit() && !e.now().Anchored {
		return
	}
	w := e.next(0)
	w.wire.pop()
	e.loadStream()
	e.session.CopyFrom(e.sessions.at(w.session).session)
	if !r.commit() {
		batch := statemachine.Batch{ID: uint64(r.id()), Digest: uint64(w.resets), Records: 1}
		w.replies.push(newReply(r, e.session.Receive(e.stream, batch), 0))
		e.keepStream(w)
		e.keepSession(w)
		return
	}
	code, watermark := e.session.Commit(e.stream, uint64(r.id()))
	if code != statemachine.Ack {
		watermark = e.told()
	}
	w.replies.push(newReply(r, code, watermark))
	e.keepSession(w)
}

// told is Told. System.tla puts it into every answer to a COMMIT, and the collector reads it with ACK
// only; so must the answers here, to count the same worlds as different.
func (e *expander) told() uint64 {
	session := e.sessions.at(e.from.session)
	told := min(e.now().Committed, session.Named)
	if len(session.Refused) > 0 {
		told = min(told, session.Refused[0].First-1)
	}
	return told
}
