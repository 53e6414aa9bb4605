package explore

import "github.com/tidemark/tidemark/statemachine"

// SeatMaker makes the streams and seats to explore in the world of Seat.tla. [Shipped] is that of package
// statemachine; a test of the explorer gives another one.
type SeatMaker interface {
	StreamMaker
	// RestoreSeat is that of Seat.tla, and of the zero image NewSeat.
	RestoreSeat(statemachine.SeatImage) Seat
}

// Seat is what the world asks of a seat; the methods are those of [statemachine.Seat]. HelloReply is in Hello.
type Seat interface {
	// CopyFrom makes the seat a copy of another one of the same maker.
	CopyFrom(Seat)
	// AppendKey appends bytes that are equal only for seats that do the same from then on.
	AppendKey(dst []byte) []byte
	Image() statemachine.SeatImage
	Owner() uint64
	Free() bool

	Hello(Stream, uint64, statemachine.Hello) (statemachine.Welcome, uint64, statemachine.Reply)
	Ready(Stream, uint64) (lost []statemachine.Range, stored, ok bool)
	Takes(conn, id uint64) bool
	Receive(Stream, uint64, statemachine.Batch) (statemachine.Reply, bool)
	Refuse(conn, id uint64) bool
	Nack(conn, id uint64) bool
	Skip(s Stream, conn, id uint64) bool
	Push(Stream) (conn, watermark uint64, ok bool)
	Leave(conn uint64)
}

// RestoreSeat is [statemachine.RestoreSeat].
func (Shipped) RestoreSeat(img statemachine.SeatImage) Seat {
	seat := statemachine.RestoreSeat(img)
	return ShippedSeat{&seat}
}

// ShippedSeat is a [statemachine.Seat], for streams that are or embed a [ShippedStream]; a seat that differs in a method
// or two embeds it.
type ShippedSeat struct{ *statemachine.Seat }

// Core is the seat itself.
func (t ShippedSeat) Core() *statemachine.Seat { return t.Seat }

// CopyFrom is an assignment.
func (t ShippedSeat) CopyFrom(o Seat) { *t.Seat = *o.(interface{ Core() *statemachine.Seat }).Core() }

// AppendKey has all fields.
func (t ShippedSeat) AppendKey(dst []byte) []byte { return appendFields(dst, t.Seat) }

// Hello is [statemachine.Seat.Hello].
func (t ShippedSeat) Hello(s Stream, conn uint64, h statemachine.Hello) (statemachine.Welcome, uint64, statemachine.Reply) {
	return t.Seat.Hello(core(s), conn, h)
}

// Ready is [statemachine.Seat.Ready].
func (t ShippedSeat) Ready(s Stream, conn uint64) (lost []statemachine.Range, stored, ok bool) {
	return t.Seat.Ready(core(s), conn)
}

// Receive is [statemachine.Seat.Receive].
func (t ShippedSeat) Receive(s Stream, conn uint64, b statemachine.Batch) (statemachine.Reply, bool) {
	return t.Seat.Receive(core(s), conn, b)
}

// Skip is [statemachine.Seat.Skip].
func (t ShippedSeat) Skip(s Stream, conn, id uint64) bool { return t.Seat.Skip(core(s), conn, id) }

// Push is [statemachine.Seat.Push].
func (t ShippedSeat) Push(s Stream) (conn, watermark uint64, ok bool) { return t.Seat.Push(core(s)) }
