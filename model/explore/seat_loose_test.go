package explore

import "github.com/tidemark/tidemark/statemachine"

// looseSeats are seats with CloseOlder or CheckNext of Seat.tla FALSE, made of shipped ones.
type looseSeats struct {
	Shipped
	closeOlder, checkNext bool
}

func (m looseSeats) RestoreSeat(img statemachine.SeatImage) Seat {
	return &looseSeat{ShippedSeat: shippedSeat(img), rules: m, asking: shippedSeat(statemachine.SeatImage{})}
}

func shippedSeat(img statemachine.SeatImage) ShippedSeat {
	seat := statemachine.RestoreSeat(img)
	return ShippedSeat{&seat}
}

// looseSeat is the seat of the connection that writes. While the older connection is not closed, the one that asks has
// another seat, beside it.
type looseSeat struct {
	ShippedSeat
	rules  looseSeats
	asking ShippedSeat
	asker  uint64
	said   statemachine.Hello // by the asker; the shipped seat may have heard another next number
}

func (t *looseSeat) CopyFrom(o Seat) {
	from := o.(*looseSeat)
	t.ShippedSeat.CopyFrom(from.ShippedSeat)
	t.asking.CopyFrom(from.asking)
	t.asker, t.said = from.asker, from.said
}

func (t *looseSeat) AppendKey(dst []byte) []byte {
	return appendFields(t.asking.AppendKey(t.ShippedSeat.AppendKey(dst)), &t.said)
}

func (t *looseSeat) Hello(s Stream, conn uint64, h statemachine.Hello) (w statemachine.Welcome, older uint64, reply statemachine.Reply) {
	said := h
	if !t.rules.checkNext && h.Next != 0 {
		h.Next = max(h.Next, core(s).Received()+1)
	}
	if t.rules.closeOlder {
		w, older, reply = t.ShippedSeat.Hello(s, conn, h)
	} else if reply = t.HelloReply(core(s), h); reply == statemachine.Welcomed {
		t.asking = shippedSeat(t.Image())
		w, _, _ = t.asking.Hello(s, conn, h)
	}
	if reply == statemachine.Welcomed {
		t.asker, t.said = conn, said
	}
	return w, older, reply
}

func (t *looseSeat) Ready(s Stream, conn uint64) (lost []statemachine.Range, stored, ok bool) {
	if t.rules.closeOlder {
		lost, stored, ok = t.ShippedSeat.Ready(s, conn)
	} else if lost, stored, ok = t.asking.Ready(s, conn); ok {
		t.ShippedSeat, t.asking = t.asking, shippedSeat(statemachine.SeatImage{})
	}
	if ok {
		t.asker, t.said = 0, statemachine.Hello{}
	}
	return lost, stored, ok
}

func (t *looseSeat) Leave(conn uint64) {
	t.ShippedSeat.Leave(conn)
	if conn != t.asker {
		return
	}
	t.asker, t.said, t.asking = 0, statemachine.Hello{}, shippedSeat(statemachine.SeatImage{})
}
