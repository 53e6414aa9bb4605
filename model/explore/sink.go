package explore

// The actions between the stream and its sink, by their names in System.tla.

// DoEmit gives the first n batches of the queue to the sink.
func (e *expander) DoEmit() {
	if !e.from.up {
		return
	}
	for n := 1; n <= e.Limits.QueueCapacity && e.now().stream.CanEmit(n); n++ {
		w := e.next(uint8(n))
		e.loadStream()
		e.stream.Emit(n)
		e.keepStream(w)
	}
}

// DoTake: the sink takes one more batch of the delivery in flight.
func (e *expander) DoTake() {
	if !e.from.up || int(e.from.taking) >= len(e.now().Inflight) {
		return
	}
	w := e.next(0)
	b := e.now().Inflight[w.taking]
	w.taking++
	w.open[e.content(uint8(b.ID), uint8(b.Digest))]++
}

// DoSettle ends the delivery with what was taken: all of it, or the sink refused the rest.
func (e *expander) DoSettle() {
	inflight := len(e.now().Inflight)
	short := int(e.from.taking) < inflight
	if !e.from.up || inflight == 0 || short && e.from.refusals >= e.MaxRefusals {
		return
	}
	w := e.next(0)
	if short {
		w.refusals++
	}
	e.loadStream()
	e.stream.Settle(int(w.taking))
	w.taking = 0
	e.keepStream(w)
}

// DoRollback: the sink lost its transaction, what was sealed included.
func (e *expander) DoRollback() {
	if !e.from.up || e.from.rollbacks >= e.MaxRollbacks || e.from.phase > sealed || !e.now().stream.CanRollback(0) {
		return
	}
	w := e.next(0)
	w.rollbacks++
	e.halves(len(e.now().Settled) > 0, len(e.now().Inflight) > 0)
	e.loadStream()
	e.stream.Rollback(0)
	w.phase, w.saving, w.taking, w.open, w.sealed = idle, 0, 0, bag{}, bag{}
	e.keepStream(w)
}

// DoRollbackOpen: the sink lost what it took after the barrier of the checkpoint being written.
func (e *expander) DoRollbackOpen() {
	c := e.now().stream.Last()
	if !e.from.up || e.from.rollbacks >= e.MaxRollbacks || c == 0 || !e.now().stream.CanRollback(c) {
		return
	}
	w := e.next(0)
	w.rollbacks++
	e.halves(len(e.now().Settled) > e.now().kept, len(e.now().Inflight) > 0)
	e.loadStream()
	e.stream.Rollback(c)
	w.taking, w.open = 0, bag{}
	e.keepStream(w)
}

// DoResume gives the sink of a halted stream another chance.
func (e *expander) DoResume() {
	if !e.from.up || !e.now().stream.CanResume() {
		return
	}
	w := e.next(0)
	e.loadStream()
	e.stream.Resume()
	e.keepStream(w)
}
