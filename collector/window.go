package collector

// window is how many batches may be sent and unacknowledged. It shrinks to what the ingress had room for. After a rest it
// tries for more, and goes on quickly as long as that works. A try that fails costs the wait of a QUEUE_FULL, so each
// one that fails at the same size doubles the rest.
type window struct {
	size, limit int
	room        int  // at the last QUEUE_FULL
	rest        int  // windows to be acknowledged before the next try
	grown       bool // since the last QUEUE_FULL
	credit      int  // batches acknowledged since the last change
}

const (
	minRest = 256
	maxRest = 1 << 14
)

func newWindow(limit int) window { return window{size: limit, limit: limit, rest: minRest} }

// full says that a batch got QUEUE_FULL while room others were unacknowledged.
func (w *window) full(room int) {
	room = min(w.size, max(1, room))
	switch {
	case !w.grown:
	case room >= w.room*3/4:
		w.rest = min(2*w.rest, maxRest)
	default: // another cause than before
		w.rest = minRest
	}
	w.size, w.room, w.credit, w.grown = room, room, 0, false
}

// acknowledged says that n batches were.
func (w *window) acknowledged(n int) {
	if w.size == w.limit {
		return
	}
	w.credit += n
	needed := w.size
	if !w.grown {
		needed *= w.rest
	}
	if w.credit >= needed {
		w.size = min(w.limit, w.size+max(1, w.size/8))
		w.credit, w.grown = 0, true
	}
}
