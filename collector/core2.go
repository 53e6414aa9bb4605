package collector

import (
	"fmt"
	"math"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// Limits2 bound what a Core2 holds and has on its way; the ingress may ask for less.
type Limits2 struct {
	Batches uint64 // above the watermark
	Bytes   int64  // of their payloads, but always one batch
}

// Core2 decides what to send next and what a reply means in dialect 2: the collector of Seat.tla, with its actions as
// methods. It is pure: it knows the time only from its arguments, and does no I/O. One goroutine at a time may use it.
//
// Batches have ids without a gap; what goes on the wire under them are numbers: id + Numbers.Offset. The core has the
// lowest of what is held in memory, from the watermark on; the rest may be elsewhere, and is loaded when there is Room.
type Core2 struct {
	collector, token string
	limits           Limits2
	numbers          Numbers
	before           Numbers // those that are stored
	next             uint64  // ids from it on are new to the ingress, as far as the buffer knows
	confirmed        bool    // the ingress has said so, and that is stored

	buffer queue[loaded] // what is in memory, from the id first
	first  uint64        // lowest id not acknowledged
	total  int64         // bytes of all that was ever loaded
	stats  Stats
	ever   uint64 // highest id ever sent

	// Of this connection.
	mode           mode
	hello, welcome span2  // the numbers of HELLO, and committed and received of WELCOME
	acked          uint64 // the last watermark, as a number
	cursor         uint64 // ids from it on are unsent, but for
	top            uint64 // those up to this one that are
	missing        []span2
	sent           uint64 // highest id sent
	window         Limits2
	resume         time.Time // nothing is sent before
	skips          []uint64  // ids given up that the ingress has to be told of
	pings          pings
	away           time.Duration // how long to stay away after GOAWAY
	leave          time.Time     // the ingress has until then to close after it
	bye            bool          // BYE is to be sent
}

// loaded is a batch in memory.
type loaded struct {
	Batch
	before  int64 // bytes loaded before it
	skipped bool  // given up
}

// span2 is a range of numbers or ids.
type span2 struct{ first, last uint64 }

type mode uint8

const (
	modeDown    mode = iota // no connection
	modeAsked               // HELLO is sent
	modeNumber              // WELCOME came, and what it says of the numbers must be stored now
	modeReady               // batches may go
	modeLeaving             // BYE is sent, or GOAWAY came: replies are taken, and nothing is sent
)

// NewCore2 makes a core that holds the ids from first on, none of them in memory. Those from next on were stored since
// the ingress was last reached.
func NewCore2(collector, token string, first, next uint64, n Numbers, limits Limits2) *Core2 {
	if first < 1 || next < first || limits.Batches < 1 || limits.Bytes < 1 {
		panic(fmt.Sprintf("collector: ids from %d to %d and limits %+v, allowed is at least 1", first, next, limits))
	}
	return &Core2{collector: collector, token: token, limits: limits, numbers: n, before: n, first: first, next: next}
}

// number is what stands on the wire for an id.
func (c *Core2) number(id uint64) uint64 { return uint64(int64(id) + c.numbers.Offset) }

// id is what a number stands for; 0 when it is below all ids.
func (c *Core2) id(number uint64) uint64 {
	id := int64(number) - c.numbers.Offset
	if c.numbers.Offset < 0 && id < int64(number) { // above all ids
		return math.MaxInt64
	}
	return uint64(max(id, 0))
}

// Numbers say under which numbers batches go.
func (c *Core2) Numbers() Numbers { return c.numbers }

// Unstored tells that the numbers are new, or that the ingress confirmed them for the first time, which has to be stored:
// then call Stored. Before that nothing is sent.
func (c *Core2) Unstored() bool { return c.mode == modeNumber }

// Stored says that the numbers are on disk.
func (c *Core2) Stored() {
	if c.mode == modeNumber {
		c.mode, c.before, c.confirmed = modeReady, c.numbers, true
		c.pings.owed = append(c.pings.owed, protocol.CommandReady)
	}
}

// Anew is StartAnew: after RETIRED or FORGOT, all that is held goes under new numbers of a new instance, which the
// ingress has to say. What it took under the old ones it gets twice.
func (c *Core2) Anew(instance string) {
	c.Disconnect()
	c.numbers, c.ever, c.confirmed = Numbers{Instance: instance}, 0, false
	c.before = c.numbers
}

// Disconnect says that the connection is gone: Break. Numbers that were not stored are forgotten.
func (c *Core2) Disconnect() {
	c.mode, c.numbers = modeDown, c.before
}

// end is the id of the next batch to be loaded.
func (c *Core2) end() uint64 { return c.first + uint64(c.buffer.len()) }

// Load brings the batch with the next id into memory. The core keeps the payload until it is acknowledged.
func (c *Core2) Load(id uint64, b Batch) {
	if id != c.end() {
		panic(fmt.Sprintf("collector: batch %d is loaded, and %d comes next", id, c.end()))
	}
	c.buffer.push(loaded{Batch: b, before: c.total})
	c.total += int64(len(b.Payload))
	c.stats.Records += uint64(b.Records)
}

// Room tells whether one more batch should be loaded.
func (c *Core2) Room() bool {
	return c.mode == modeReady && uint64(c.buffer.len()) < c.window.Batches && (c.buffer.len() == 0 || c.bytes() < c.window.Bytes)
}

// bytes are those of what is in memory.
func (c *Core2) bytes() int64 {
	if c.buffer.len() == 0 {
		return 0
	}
	return c.total - c.buffer.at(0).before
}

// Held is how many batches are in memory, and the bytes of their payloads.
func (c *Core2) Held() (batches int, bytes int64) { return c.buffer.len(), c.bytes() }

// Watermark is the highest id acknowledged.
func (c *Core2) Watermark() uint64 { return c.first - 1 }

// Stats are the counts so far.
func (c *Core2) Stats() Stats { return c.stats }

// Open tells whether the ingress has let this connection in.
func (c *Core2) Open() bool { return c.mode == modeReady || c.mode == modeLeaving }

// Connect begins a connection: it appends HELLO. Next is the next id that a batch will get. As long as the ingress was not
// reached HELLO says the one from then instead: if the buffer forgot its tail, the ingress can tell only from that.
func (c *Core2) Connect(dst []byte, next uint64, now time.Time) []byte {
	c.Disconnect()
	c.mode, c.skips, c.resume, c.sent, c.away, c.bye = modeAsked, nil, time.Time{}, 0, 0, false
	c.leave = time.Time{}
	c.pings = pings{heard: now, said: now}
	c.hello = span2{}
	if c.confirmed {
		c.next = next
	}
	if c.numbers.Known {
		c.hello = span2{c.number(c.first), c.number(c.next)}
	}
	return protocol.AppendHello2(dst, &protocol.Hello{
		Collector: c.collector, Instance: c.numbers.Instance, Token: c.token, First: c.hello.first, Next: c.hello.last,
	})
}

// Bye is the end of a connection: when all that is sent is answered, the ingress says BYE.
func (c *Core2) Bye() {
	if c.mode == modeReady {
		c.mode, c.bye = modeLeaving, true
	}
}

// Away is for how long the ingress asked to stay away.
func (c *Core2) Away() time.Duration { return c.away }

// Overdue tells that the ingress said GOAWAY and did not close for its idle limit: the connection is of no use any more.
func (c *Core2) Overdue(now time.Time) bool { return !c.leave.IsZero() && !now.Before(c.leave) }

// Skip gives up a batch after a NACK: the ingress is told, and reports it as lost.
func (c *Core2) Skip(id uint64) {
	if id < c.first || id >= c.end() {
		return
	}
	c.buffer.set(int(id-c.first), func(b *loaded) { b.skipped = true })
	c.skips = append(c.skips, id)
}

// Send is SendBatch: it appends what may be sent now, until dst has size bytes or more.
func (c *Core2) Send(dst []byte, now time.Time, size int) []byte {
	before := len(dst)
	dst = c.pings.appendOwed(dst, now)
	for _, id := range c.skips {
		if id >= c.first && c.mode == modeReady {
			dst = protocol.AppendSkip2(dst, c.number(id))
		}
	}
	c.skips = c.skips[:0]
	if !now.Before(c.resume) {
		c.resume = time.Time{}
	}
	if c.bye {
		dst, c.bye = protocol.AppendBye2(dst), false
	}
	for len(dst) < size && c.resume.IsZero() && c.maySend() {
		dst = c.appendBatch(dst)
	}
	if len(dst) > before {
		c.pings.said = now
	}
	return dst
}

// maySend moves the cursor to the lowest id that is unsent, and tells whether it may go.
func (c *Core2) maySend() bool {
	c.cursor = max(c.cursor, c.first)
	for c.cursor <= c.top {
		if len(c.missing) == 0 {
			c.cursor = c.top + 1
			break
		}
		if c.cursor <= c.missing[0].last {
			c.cursor = max(c.cursor, c.missing[0].first)
			break
		}
		c.missing = c.missing[1:]
	}
	if c.mode != modeReady || c.cursor >= c.end() {
		return false
	}
	b, number := c.buffer.at(int(c.cursor-c.first)), c.number(c.cursor)
	bytes := b.before + int64(len(b.Payload)) - c.buffer.at(0).before
	fits := number <= protocol.MaxID && number-min(c.acked, number) <= c.window.Batches
	return fits && (bytes <= c.window.Bytes || c.cursor == c.first)
}

// appendBatch appends the batch at the cursor, or that it was given up.
func (c *Core2) appendBatch(dst []byte) []byte {
	b, number := c.buffer.at(int(c.cursor-c.first)), c.number(c.cursor)
	if b.skipped {
		dst = protocol.AppendSkip2(dst, number)
	} else {
		dst = protocol.AppendBatch2(dst, number, b.Records, b.Payload)
		c.stats.Sent += uint64(b.Records)
		if c.cursor <= c.ever {
			c.stats.Resent += uint64(b.Records)
		}
	}
	c.ever, c.sent = max(c.ever, c.cursor), max(c.sent, c.cursor)
	c.cursor++
	return dst
}

// Wake is when Send may have more to append though nothing else happens; false: never.
func (c *Core2) Wake() (at time.Time, ok bool) {
	if c.Open() && c.pings.idle > 0 {
		at, ok = c.pings.due(), true
	}
	if c.mode == modeReady && !c.resume.IsZero() && (!ok || c.resume.Before(at)) {
		at, ok = c.resume, true
	}
	if !c.leave.IsZero() && (!ok || c.leave.Before(at)) {
		at, ok = c.leave, true
	}
	return at, ok
}

// Idle is for how long the ingress may say nothing, after which the connection is to be given up; 0: not yet known.
func (c *Core2) Idle() time.Duration { return c.pings.idle }
