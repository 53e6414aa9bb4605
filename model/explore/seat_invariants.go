package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

// seatInvariants are those of Seat.tla, by name, and Dirty and Reported; LostIsGone is one of steps. Each says what does
// not hold.
var seatInvariants = map[string]func(*seatExpander, *seatWorld) error{
	"StreamSound":  seatStreamSound,
	"SeatSound":    seatSound,
	"NoLoss":       seatNoLoss,
	"ExactlyOnce":  seatExactlyOnce,
	"NoFalseAlarm": noFalseAlarm,
	"NoRefusal":    noRefusal,
	"Dirty":        seatDirty,
	"Reported":     reported,
}

// check is the first invariant that does not hold of w.
func (e *seatExpander) check(w *seatWorld) *fault {
	for _, wrong := range e.checked {
		if f := wrong(e, w); f != nil {
			return f
		}
	}
	return nil
}

// checkStep is LostIsGone.
func (e *seatExpander) checkStep(from, to *seatWorld) *fault {
	news := to.lost &^ from.lost
	if news == 0 || !e.lostIsGone {
		return nil
	}
	wrong := e.each(e.buffer(from), func(id, _ uint8) error {
		if news&one(id) != 0 {
			return fmt.Errorf("%d is reported as lost, and the collector holds batch %d", id, id)
		}
		return nil
	})
	if wrong != nil {
		return &fault{"LostIsGone", wrong.Error()}
	}
	return nil
}

func seatStreamSound(e *seatExpander, w *seatWorld) error {
	if !w.up {
		return nil
	}
	return e.streams.at(w.stream).unsound
}

func seatSound(e *seatExpander, w *seatWorld) error {
	if !w.up {
		return nil
	}
	seat := e.seats.at(w.seat)
	if seat.fault == nil && seat.image != w.stored {
		return fmt.Errorf("the seat is of %q, the one in the store of %q", e.kept.at(seat.image).Instance, e.kept.at(w.stored).Instance)
	}
	return seat.fault
}

// describeSeat tells what SeatSound is about, of the seat at hand.
func (e *seatExpander) describeSeat() *seatFacts {
	f := &seatFacts{seat: e.seat, owner: uint8(e.seat.Owner())}
	image := e.seat.Image()
	f.image = e.kept.add([]byte(image.Instance+":"+strings.Join(image.Retired, ",")), func(uint32) statemachine.SeatImage { return image })
	asked := e.makers.seats.RestoreSeat(statemachine.SeatImage{})
	asked.CopyFrom(e.seat)
	asked.Leave(uint64(f.owner))
	switch {
	case e.CloseOlder && f.owner != 0 && !asked.Free():
		f.fault = errors.New("one connection writes while another one was welcomed")
	case slices.Contains(image.Retired, image.Instance):
		f.fault = fmt.Errorf("instance %s writes, and is retired", image.Instance)
	}
	return f
}

func seatNoLoss(e *seatExpander, w *seatWorld) error {
	return e.each(w.made&^e.buffer(w)&^w.skipped, func(id, life uint8) error {
		if w.durable[e.content(id, life)] == 0 {
			return fmt.Errorf("batch %d left the buffer, the sink does not have it for good, and it was not reported as lost", id)
		}
		return nil
	})
}

func seatExactlyOnce(e *seatExpander, w *seatWorld) error {
	for i, n := range w.durable {
		id, skipped := i/e.lives()+1, w.skipped&(1<<i) != 0
		if n > 1 || n > 0 && skipped {
			return fmt.Errorf("batch %d is in the sink %d times; reported as lost: %t", id, n, skipped)
		}
	}
	return nil
}

func noFalseAlarm(e *seatExpander, w *seatWorld) error {
	s := e.streams.at(w.stream)
	if !w.up || !s.Anchored {
		return nil
	}
	return e.each(e.buffer(w)&^w.skipped, func(id, _ uint8) error {
		n := uint64(id)
		if s.Committed < n && n <= s.Received && !known(&s.State, n) {
			return fmt.Errorf("the collector holds batch %d, which the server neither knows nor asks for", n)
		}
		return nil
	})
}

func noRefusal(e *seatExpander, w *seatWorld) error {
	if !w.up {
		return nil
	}
	s, seat := e.streams.at(w.stream), e.seats.at(w.seat)
	for c := range w.wire {
		m := w.wire[c][0]
		id := uint64(m.id())
		if m.what() != sayBatch && m.what() != saySkip || !seat.seat.Takes(uint64(c+1), id) {
			continue
		}
		near := missing(&s.State, id) || id <= s.Committed+e.Limits.Ahead
		if m.what() == saySkip && !near {
			return fmt.Errorf("%v is too far above the watermark", m)
		}
		if reply := s.stream.ReceiveReply(id, uint64(m.life())); m.what() == sayBatch && reply != statemachine.Received {
			return fmt.Errorf("%v gets %v", m, reply)
		}
		for left := s.Received + 1; left < id; left++ {
			if !slices.Contains(e.Undecodable, uint8(left)) {
				return fmt.Errorf("%v comes, and %d did not", m, left)
			}
		}
	}
	return nil
}

// reported is Accounted of Stream.tla in this world: what is neither here nor asked for was reported as lost.
func reported(e *seatExpander, w *seatWorld) error {
	s := e.streams.at(w.stream)
	if !w.up || s.unaccounted == nil {
		return nil
	}
	gone := w.lost
	_ = e.each(w.skipped, func(id, _ uint8) error { gone |= one(id); return nil })
	for id := s.Committed + 1; id <= s.Received; id++ {
		if gone&one(uint8(id)) == 0 && !known(&s.State, id) {
			return fmt.Errorf("%d is neither here nor asked for, and was not reported as lost", id)
		}
	}
	return nil
}

// seatDirty is dirty in this world.
func seatDirty(e *seatExpander, w *seatWorld) error {
	if !w.up || w.phase != idle {
		return nil
	}
	return e.checkDirty(w.stream, w.store)
}
