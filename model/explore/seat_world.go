package explore

import (
	"fmt"

	"github.com/tidemark/tidemark/statemachine"
)

// seatWorld is the variables of Seat.tla as plain memory: equal worlds, equal bytes. It is the state and its own key;
// what is large is held once in the search and named by its place there.
type seatWorld struct {
	stream, seat  uint32 // in seatSearch.shared.streams and seatSearch.seats
	store, saving uint32 // in seatSearch.shared.images
	stored        uint32 // what the store keeps of the seat, in seatSearch.kept
	col           uint32 // in seatSearch.collectors: the collector, but for the fields below

	replies [2]line[answer]
	wire    [2]line[message]
	lost    set

	open, sealed, durable bag
	made, skipped         contents
	conn, instance, life  uint8
	mode                  mode
	phase                 phase
	up                    bool
	breaks, crashes       uint8
	resets, forgets       uint8
	denied                uint8
}

// mode is how far the collector is with its connection.
type mode uint8

const (
	down mode = iota
	asked
	ready
	refused // for good
)

// contents is a set of batches: numbers and the lives that they were made in, by their places in a bag.
type contents uint8

// content is the place of a batch in a bag.
func (c *SeatConstants) content(id, life uint8) int { return int(id-1)*c.lives() + int(life) }

func (c *SeatConstants) one(id, life uint8) contents { return 1 << c.content(id, life) }

// upTo are the contents with numbers up to id.
func (c *SeatConstants) upTo(id uint8) contents { return 1<<(int(id)*c.lives()) - 1 }

// each yields the number and the life of each batch.
func (c *SeatConstants) each(list contents, yield func(id, life uint8) error) error {
	for i := range uint8(maxContents) {
		if list&(1<<i) == 0 {
			continue
		}
		if err := yield(i/uint8(c.lives())+1, i%uint8(c.lives())); err != nil {
			return err
		}
	}
	return nil
}

// message is what the collector says: what it is, and up to three numbers.
type message uint16

const (
	sayHello message = iota + 1 // instance, first, next
	sayReady
	sayBatch // number, life that it was made in
	saySkip
)

func newMessage(what message, a, b, c uint8) message {
	return what | message(a)<<3 | message(b)<<7 | message(c)<<11
}

func (m message) what() message { return m & 7 }
func (m message) id() uint8     { return uint8(m >> 3 & 15) }
func (m message) life() uint8   { return uint8(m >> 7 & 15) }

func newHello(h statemachine.Hello) message {
	return newMessage(sayHello, instanceNumber(h.Instance), uint8(h.First), uint8(h.Next))
}

func (m message) hello() statemachine.Hello {
	return statemachine.Hello{Instance: instanceNames[m.id()], First: uint64(m.life()), Next: uint64(m >> 11 & 15)}
}

// instanceNames are what a collector calls its buffer.
var instanceNames = [...]string{"", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

func instanceNumber(instance string) uint8 { return instance[0] - '0' }

func (m message) String() string {
	switch m.what() {
	case sayHello:
		h := m.hello()
		return fmt.Sprintf("HELLO instance %s, first %d, next %d", h.Instance, h.First, h.Next)
	case sayReady:
		return "READY"
	case saySkip:
		return fmt.Sprint("SKIP ", m.id())
	}
	return fmt.Sprint("BATCH ", m.id())
}

// answer is what the server says: its code, one or two numbers, and a set of them.
type answer uint32

// Codes of answers that are not a statemachine.Reply.
const (
	nack statemachine.Reply = iota + statemachine.First + 1
	fenced
)

func newAnswer(code statemachine.Reply, number uint64) answer {
	return answer(code) | answer(number)<<5
}

func newWelcome(w *statemachine.Welcome) answer {
	var missing set
	for _, r := range w.Missing {
		missing |= between(r)
	}
	return newAnswer(statemachine.Welcomed, w.Committed) | answer(w.Received)<<9 | answer(missing)<<13
}

func (a answer) code() statemachine.Reply { return statemachine.Reply(a & 31) }
func (a answer) number() uint64           { return uint64(a >> 5 & 15) }
func (a answer) welcome() statemachine.Welcome {
	w := statemachine.Welcome{Committed: a.number(), Received: uint64(a >> 9 & 15)}
	for id := range a.missing().each {
		w.Missing = append(w.Missing, statemachine.Range{First: uint64(id), Last: uint64(id)})
	}
	return w
}
func (a answer) missing() set { return set(a >> 13) }

func (a answer) String() string {
	switch code := a.code(); code {
	case nack:
		return fmt.Sprint("NACK ", a.number())
	case fenced:
		return "FENCED"
	case statemachine.Welcomed:
		w := a.welcome()
		text := fmt.Sprintf("WELCOME committed %d, received %d", w.Committed, w.Received)
		for id := range a.missing().each {
			text += fmt.Sprint(", missing ", id)
		}
		return text
	case statemachine.Ack, statemachine.Resend:
		return fmt.Sprint(code, " ", a.number())
	default:
		return code.String()
	}
}

// between is a range as a set.
func between(r statemachine.Range) (s set) {
	for id := r.First; id <= r.Last; id++ {
		s |= one(uint8(id))
	}
	return s
}
