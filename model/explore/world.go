package explore

import (
	"fmt"
	"math/bits"

	"github.com/tidemark/tidemark/statemachine"
)

// What a world has room for.
const (
	maxNumber   = 15 // batch numbers
	maxContents = 8  // batch numbers times bodies
	maxDepth    = 4  // requests and replies on their way
)

// world is the variables of System.tla as plain memory: equal worlds, equal bytes. It is the state and
// its own key; what is large is held once in the search and named by its place there.
type world struct {
	stream        uint32 // in search.streams
	session       uint32 // in search.sessions: named, refused and told
	store, saving uint32 // in search.images

	open, sealed, durable         bag
	made, buffer, unsent, flying  set
	replies                       line[reply]
	wire                          line[request]
	first, produced, taking       uint8
	phase                         phase
	up, connected                 bool
	lostStores, denied, rollbacks uint8
	breaks, crashes, resets       uint8
	refusals, aborts              uint8
}

// phase is how far the checkpoint being written is.
type phase uint8

const (
	idle phase = iota
	sealed
	flushed
	saved
)

// set is a set of batch numbers.
type set uint16

func one(id uint8) set             { return 1 << id }
func (s set) len() int             { return bits.OnesCount16(uint16(s)) }
func (s set) min() uint8           { return uint8(bits.TrailingZeros16(uint16(s))) }
func (s set) above(mark uint8) set { return s &^ (one(mark+1) - 1) }
func (s set) each(yield func(uint8) bool) {
	for ; s != 0; s &= s - 1 {
		if !yield(s.min()) {
			return
		}
	}
}

// bag counts how often the sink has each content.
type bag [maxContents]uint8

func (b *bag) add(o *bag) {
	for i := range b {
		b[i] += o[i]
	}
}

// line is a queue of what is on its way; zero is no item.
type line[T request | reply | message | answer] [maxDepth]T

func (l *line[T]) len() int {
	n := 0
	for n < maxDepth && l[n] != 0 {
		n++
	}
	return n
}

func (l *line[T]) push(v T) { l[l.len()] = v }

func (l *line[T]) pop() {
	copy(l[:], l[1:])
	l[maxDepth-1] = 0
}

// request is a number, and whether it is asked about or sent.
type request uint8

const commitRequest request = 1 << 4

func (r request) id() uint8    { return uint8(r &^ commitRequest) }
func (r request) commit() bool { return r&commitRequest != 0 }

// reply is what it answers, code and watermark.
type reply uint16

func newReply(to request, code statemachine.Reply, watermark uint64) reply {
	return reply(to) | reply(code)<<5 | reply(watermark)<<9
}

func (r reply) to() request              { return request(r & 31) }
func (r reply) code() statemachine.Reply { return statemachine.Reply(r >> 5 & 15) }
func (r reply) watermark() uint8         { return uint8(r >> 9) }

func (r request) String() string {
	if r.commit() {
		return fmt.Sprint("COMMIT ", r.id())
	}
	return fmt.Sprint("BATCH ", r.id())
}

func (r reply) String() string {
	text := fmt.Sprintf("%v: %v", r.to(), r.code())
	if r.code() == statemachine.Ack {
		text += fmt.Sprint(" ", r.watermark())
	}
	return text
}

// hangUp forgets all that belongs to a connection.
func (w *world) hangUp() {
	w.connected, w.wire, w.replies, w.session = false, line[request]{}, line[reply]{}, 0
}

// content is the place of a batch in a bag.
func (c *Constants) content(id, body uint8) int { return int(id-1)*int(c.MaxResets+1) + int(body) }
