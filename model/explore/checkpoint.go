package explore

// The actions of a checkpoint, by their names in System.tla. There every checkpoint has number 1; here
// the numbers rise, as in a host, and a key knows only their distance from the last one.

// DoSnapshot is the barrier: stream, image and the sink's transaction are cut in one instant.
func (e *expander) DoSnapshot() {
	if !e.from.up || e.from.phase != idle || e.from.taking > 0 || !e.canSnapshot() || !e.now().dirty {
		return
	}
	w := e.next(0)
	e.halves(e.changed(w.stream, w.store), e.now().watermark > e.now().Committed)
	e.loadStream()
	e.stream.Snapshot(e.stream.Last() + 1)
	w.saving, w.phase = e.now().image, sealed
	w.sealed.add(&w.open)
	w.open = bag{}
	e.keepStream(w)
}

func (e *expander) canSnapshot() bool {
	s := e.now().stream
	return s.CanSnapshot(s.Last() + 1)
}

// Flush makes durable in the sink what was sealed, before the store is written.
func (e *expander) Flush() {
	if !e.from.up || e.Transactional || e.from.phase != sealed {
		return
	}
	w := e.next(0)
	w.durable.add(&w.sealed)
	w.sealed = bag{}
	w.phase = flushed
}

// Save writes the image into the store; a sink that commits together with it does so in the same step.
func (e *expander) Save() {
	ready := flushed
	if e.Transactional {
		ready = sealed
	}
	if !e.from.up || e.from.phase != ready {
		return
	}
	w := e.next(0)
	if e.Transactional {
		w.durable.add(&w.sealed)
		w.sealed = bag{}
	}
	w.store, w.phase = w.saving, saved
	w.stream = e.forgetStored(w.stream, w.phase)
}

// DoComplete tells the stream that its checkpoint is durable.
func (e *expander) DoComplete() {
	if !e.from.up || e.from.phase != saved {
		return
	}
	w := e.next(0)
	e.loadStream()
	e.stream.Complete(e.stream.Last())
	w.saving, w.phase = 0, idle
	e.keepStream(w)
}

// DoAbort gives up a checkpoint that is certainly not in the store; the sink keeps its rows.
func (e *expander) DoAbort() {
	if !e.from.up || e.from.phase != sealed && e.from.phase != flushed || e.from.aborts >= e.MaxAborts {
		return
	}
	w := e.next(0)
	w.aborts++
	e.loadStream()
	e.stream.Abort(e.stream.Last())
	w.saving, w.phase = 0, idle
	e.keepStream(w)
}
