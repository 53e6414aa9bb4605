package explore

// What goes wrong, by its names in System.tla.

// Break cuts the connection.
func (e *expander) Break() {
	if !e.from.connected || e.from.breaks >= e.MaxBreaks {
		return
	}
	w := e.next(0)
	w.breaks++
	w.hangUp()
}

// Reset: the collector loses its disk.
func (e *expander) Reset() {
	if e.from.resets >= e.MaxResets || e.from.produced < e.from.first {
		return
	}
	w := e.next(0)
	w.resets++
	w.produced = w.first - 1
	w.made, w.buffer, w.unsent, w.flying = 0, 0, 0, 0
	w.hangUp()
}

// Crash: the server loses its memory and the sink what is not durable; the store may be lost too.
func (e *expander) Crash() {
	if !e.from.up || e.from.crashes >= e.MaxCrashes {
		return
	}
	for lost := uint8(0); lost <= 1; lost++ {
		if lost == 1 && e.from.lostStores >= e.MaxLost {
			return
		}
		w := e.next(lost)
		w.crashes++
		w.up, w.stream, w.saving, w.phase, w.taking = false, 0, 0, idle, 0
		w.open, w.sealed = bag{}, bag{}
		if lost == 1 {
			w.store = 0
			w.lostStores++
		}
		w.hangUp()
	}
}

// Restart begins a new life from what is in the store.
func (e *expander) Restart() {
	if e.from.up {
		return
	}
	w := e.next(0)
	w.up = true
	e.restoreStream(w.store)
	e.keepStream(w)
}
