package explore

// The actions between the stream, its sink and the store, and the faults of the server, by their names in Seat.tla. The
// sink commits together with the store. There every checkpoint has number 1; here the numbers rise, as in
// checkpoint.go.

// DoEmit gives the first batch of the queue to the sink.
func (e *seatExpander) DoEmit() {
	if !e.from.up || !e.now().stream.CanEmit(1) {
		return
	}
	w := e.next(0)
	e.loadStream()
	e.stream.Emit(1)
	e.keepStream(w)
}

// DoSettle: the sink took it.
func (e *seatExpander) DoSettle() {
	inflight := e.now().Inflight
	if !e.from.up || len(inflight) == 0 {
		return
	}
	w := e.next(0)
	for _, b := range inflight {
		w.open[e.content(uint8(b.ID), uint8(b.Digest))]++
	}
	e.loadStream()
	e.stream.Settle(1)
	e.keepStream(w)
}

// DoSnapshot is the barrier: what the sink took so far belongs to this checkpoint.
func (e *seatExpander) DoSnapshot() {
	s := e.now()
	if !e.from.up || e.from.phase != idle || !s.stream.CanSnapshot(s.stream.Last()+1) || !s.dirty {
		return
	}
	w := e.next(0)
	e.halves(e.changed(w.stream, w.store), s.watermark > s.Committed)
	e.loadStream()
	e.stream.Snapshot(e.stream.Last() + 1)
	w.saving, w.phase = s.image, sealed
	w.sealed.add(&w.open)
	w.open = bag{}
	e.keepStream(w)
}

// Save: sink and store commit in one step. The seat in the store may be newer than the snapshot: it stays.
func (e *seatExpander) Save() {
	if !e.from.up || e.from.phase != sealed {
		return
	}
	w := e.next(0)
	w.durable.add(&w.sealed)
	w.sealed = bag{}
	w.store, w.phase = w.saving, saved
	w.stream = e.forgetStored(w.stream, w.phase)
}

// DoComplete tells the stream that its checkpoint is durable.
func (e *seatExpander) DoComplete() {
	if !e.from.up || e.from.phase != saved {
		return
	}
	w := e.next(0)
	e.loadStream()
	e.stream.Complete(e.stream.Last())
	w.saving, w.phase = 0, idle
	e.keepStream(w)
}

// Crash: the server loses its memory and the sink what is not durable; connections end. A HELLO may be in a proxy.
func (e *seatExpander) Crash() {
	if !e.from.up || e.from.crashes >= e.MaxCrashes {
		return
	}
	w := e.next(0)
	w.crashes++
	w.up, w.stream, w.seat, w.saving, w.phase = false, 0, 0, 0, idle
	w.open, w.sealed = bag{}, bag{}
	for c := range w.wire {
		hello := w.wire[c][0]
		w.wire[c], w.replies[c] = line[message]{}, line[answer]{}
		if e.HelloOutlives && hello.what() == sayHello {
			w.wire[c].push(hello)
		}
	}
	if w.mode != refused {
		w.mode = down
	}
	e.loadCollector()
	e.collector.Disconnect()
	e.keepCollector(w)
}

// Restart begins a new life from what is in the store.
func (e *seatExpander) Restart() {
	if e.from.up {
		return
	}
	w := e.next(0)
	w.up = true
	e.restoreStream(w.store)
	e.keepStream(w)
	e.seat = e.makers.seats.RestoreSeat(e.kept.at(w.stored))
	e.keepSeat(w)
}
