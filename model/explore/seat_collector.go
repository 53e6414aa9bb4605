package explore

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/statemachine"
)

// CollectorMaker makes the collectors to explore in the world of Seat.tla. [PlainCollectors] is that of this package.
type CollectorMaker interface {
	// NewCollector is that of Seat.tla: its buffer has this name, holds nothing, and has no numbers.
	NewCollector(c *SeatConstants, instance string) Collector
}

// Collector takes the decisions of the collector of Seat.tla; the methods are its operators and actions. It knows
// batches by their numbers: what it holds has no gap. The world has the connection and what is on its way, and the
// contents of batches.
type Collector interface {
	// CopyFrom makes the collector a deep copy of another one of the same maker.
	CopyFrom(Collector)
	// AppendKey appends bytes that are equal only for collectors that do the same from then on.
	AppendKey(dst []byte) []byte
	// Numbered tells whether it has numbers, and MayProduce whether it may use the next one, too.
	Numbered() bool
	MayProduce() bool
	// Held are the lowest number of its buffer and the next one that it will use; equal when it holds nothing.
	Held() (first, next uint64)

	// Connect begins a connection: HelloOf.
	Connect() statemachine.Hello
	// Produce makes the next batch.
	Produce()
	// SendBatch says what to send next, the batch of a number or that it is given up. With ok false it is nothing.
	SendBatch() (id uint64, skip, ok bool)
	Welcomed(statemachine.Welcome)
	Acked(watermark uint64)
	// SendAgain is RESEND: from this number on.
	SendAgain(id uint64)
	Nacked(id uint64)
	// Ended is an answer that ends the connection; again says that it may connect again as it is.
	Ended(why Ended) (again bool)
	// Disconnect says that the connection broke.
	Disconnect()

	// Anew gives a new name to the buffer, and drops what is in it.
	Anew(instance string)
	// Forget is a buffer that comes back with numbers up to this one.
	Forget(last uint64)
}

// Ended is why a connection ended.
type Ended uint8

// What the server answers at the end of a connection.
const (
	EndedFenced Ended = iota + 1
	EndedRejected
	EndedRetired
	EndedForgot
	EndedFirst
)

// PlainCollectors make collectors as Seat.tla describes them.
type PlainCollectors struct{}

// NewCollector makes one.
func (PlainCollectors) NewCollector(c *SeatConstants, instance string) Collector {
	return &plainCollector{constants: c, instance: instance, started: true, first: 1}
}

// plainCollector is the record of Seat.tla, but for what is the world's. Its buffer is the numbers from first to
// produced.
type plainCollector struct {
	constants         *SeatConstants
	instance          string
	numbered, started bool
	acked             uint8
	first, produced   uint8
	unsent, skips     set
}

func (k *plainCollector) CopyFrom(o Collector) { *k = *o.(*plainCollector) }

func (k *plainCollector) AppendKey(dst []byte) []byte {
	flags := byte(0)
	if k.numbered {
		flags |= 1
	}
	if k.started {
		flags |= 2
	}
	dst = append(append(dst, k.instance...), flags, k.acked, k.first, k.produced)
	return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(dst, uint16(k.unsent)), uint16(k.skips))
}

func (k *plainCollector) Numbered() bool { return k.numbered }

func (k *plainCollector) MayProduce() bool { return k.numbered && k.started }

func (k *plainCollector) Held() (first, next uint64) { return uint64(k.first), uint64(k.produced + 1) }

func (k *plainCollector) Connect() statemachine.Hello {
	h := statemachine.Hello{Instance: k.instance}
	if k.numbered {
		h.First, h.Next = k.Held()
	}
	return h
}

func (k *plainCollector) Produce() {
	k.produced++
	k.unsent |= one(k.produced)
}

func (k *plainCollector) SendBatch() (id uint64, skip, ok bool) {
	if k.unsent == 0 || k.unsent.min() > k.acked+k.constants.Window {
		return 0, false, false
	}
	n := k.unsent.min()
	k.unsent &^= one(n)
	return uint64(n), k.skips&one(n) != 0, true
}

func (k *plainCollector) Acked(watermark uint64) {
	k.acked = uint8(watermark)
	k.unsent, k.skips = k.unsent.above(k.acked), k.skips.above(k.acked)
	k.first = max(k.first, min(k.acked, k.produced)+1)
}

// held are the numbers of the buffer.
func (k *plainCollector) held() set {
	return between(statemachine.Range{First: uint64(k.first), Last: uint64(k.produced)})
}

func (k *plainCollector) Welcomed(w statemachine.Welcome) {
	k.Acked(w.Committed)
	if !k.numbered {
		k.produced = uint8(w.Received)
		k.first = k.produced + 1
	}
	k.numbered, k.started = true, true
	wanted := k.held().above(uint8(w.Received))
	for _, r := range w.Missing {
		wanted |= between(r) & k.held()
	}
	k.unsent = wanted
}

func (k *plainCollector) SendAgain(id uint64) {
	k.unsent |= k.held() & between(statemachine.Range{First: id, Last: uint64(k.produced)})
}

func (k *plainCollector) Nacked(id uint64) {
	if k.constants.SkipNacked {
		k.skips |= k.held() & one(uint8(id))
		k.unsent |= k.held() & one(uint8(id))
	}
}

func (k *plainCollector) Ended(why Ended) (again bool) { return why <= EndedRejected }

func (k *plainCollector) Disconnect() {}

func (k *plainCollector) Anew(instance string) {
	*k = plainCollector{constants: k.constants, instance: instance, started: k.started, first: 1}
}

func (k *plainCollector) Forget(last uint64) {
	k.started = !k.constants.CheckNext
	k.produced = uint8(last)
	k.first = min(k.first, k.produced+1)
	k.unsent &^= k.unsent.above(k.produced)
	k.skips &^= k.skips.above(k.produced)
}
