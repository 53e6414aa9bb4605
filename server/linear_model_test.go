package server

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
	"github.com/cespare/xxhash/v2"

	"github.com/tidemark/tidemark/protocol"
)

// The contract of one stream as a sequential specification: docs/spec/System.tla without the steps that
// nobody outside sees. What the server does in between shows in what sink and store are given, so each
// outcome is legal or not without a guess. Nothing here comes from package statemachine.

// What the limits of the server under test are; small, so that each is met.
const (
	linearCapacity = 6
	linearWindow   = 10 // Ahead and History
	linearNacks    = 2
)

// asked is one operation: a request of a connection, or what sink and store were given (from 0).
type asked struct {
	collector string
	from      int // connection of the collector, 1 to 63; 0: the sink or the store
	order     int // how many requests of this connection were answered before
	verb      string
	id        uint64   // of BATCH and COMMIT; the watermark of STORE
	body      string   // of BATCH; it begins with the number
	bodies    []string // of SINK and CONTENT
	hello     *protocol.Hello
	place     int // of BATCH: that of its body in the sink in the end, from 1; -1: nowhere; 0: not known
}

// outcome is the reply; without a code there was none, and the request may have been served or not.
type outcome struct {
	code      string
	watermark uint64
	welcome   *protocol.Welcome
}

// contract is the state. Its slices are shared between states and never written to.
type contract struct {
	accepted []taken // in the order of acceptance
	sunk     int     // how many of them the sink has for good
	covered  int     // how many of them a stored checkpoint covers
	stored   uint64  // watermark of the last stored checkpoint
	floor    uint64  // the server's watermark is this or more, and not above stored
	nacks    int     // deliveries that failed since one succeeded
	gone     uint64  // connections that are over, one bit each
	owner    int     // connection that has the seat; 0: none
	session          // of the owner
}

type taken struct {
	id   uint64
	body string
}

type session struct {
	order       int
	named, told uint64
	refused     []uint64
}

// linearModel is the contract of each collector.
var linearModel = porcupine.Model{
	Partition: byCollector,
	Init:      func() any { return contract{} },
	Step: func(state, input, output any) (bool, any) {
		s := state.(contract)
		legal := s.step(input.(asked), output.(outcome))
		return legal, s
	},
	Equal:             func(a, b any) bool { return a.(contract).equal(b.(contract)) },
	Hash:              func(state any) uint64 { return state.(contract).hash() },
	DescribeOperation: func(input, output any) string { return input.(asked).String() + output.(outcome).String() },
	DescribeState:     func(state any) string { return state.(contract).String() },
}

func byCollector(list []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range list {
		name := op.Input.(asked).collector
		parts[name] = append(parts[name], op)
	}
	all := [][]porcupine.Operation{}
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

// step tells whether the operation is legal now, and takes it.
func (s *contract) step(in asked, out outcome) bool {
	switch in.verb {
	case "AUTH":
		return s.auth(in.from, out.code)
	case "CLOSE":
		return s.close(in.from)
	case "BATCH":
		if out.code == "" {
			// Served, it can change something only as RECEIVED; otherwise it comes after the connection.
			return s.left(in.from) || s.turn(in) && s.batch(in, "RECEIVED")
		}
		legal := s.turn(in) && s.batch(in, out.code)
		s.order++
		return legal
	case "COMMIT":
		legal := s.turn(in) && s.commit(in.id, out)
		s.order++
		return legal
	default:
		return s.behind(in)
	}
}

// behind is what sink and store were given, and what became of a delivery.
func (s *contract) behind(in asked) bool {
	switch in.verb {
	case "SINK": // each once, in order, with the bytes that were accepted
		from := s.sunk
		s.sunk += len(in.bodies)
		return s.sunk <= len(s.accepted) && same(s.accepted[from:s.sunk], in.bodies)
	case "STORE": // exactly what the sink has
		s.stored, s.covered = in.id, s.sunk
		return in.id == unbroken(s.accepted[:s.sunk])
	case "REFUSED":
		s.nacks++
	case "TAKEN":
		s.nacks = 0
	case "CONTENT":
		return same(s.accepted, in.bodies) && s.stored == s.received()
	}
	return true
}

// auth takes the seat, which must be free. Without an answer it took the seat or never got it; one that
// took it and found its peer gone leaves at once, so both are the same when the seat is free.
func (s *contract) auth(from int, code string) bool {
	switch {
	case code == "REJECTED":
		return s.owner != 0
	case s.owner == 0:
		s.owner, s.session = from, session{order: 1}
	case code == "":
		s.gone |= 1 << from
	default:
		return false
	}
	return true
}

// close is the moment at which the server gives the seat of a connection away.
func (s *contract) close(from int) bool {
	if s.owner == from {
		s.owner, s.session = 0, session{}
		s.gone |= 1 << from
	}
	return s.left(from)
}

func (s *contract) left(from int) bool { return s.gone>>from&1 == 1 }

// turn tells whether the request is the next of the one connection that has the seat.
func (s *contract) turn(in asked) bool { return s.owner == in.from && s.order == in.order }

func (s *contract) batch(in asked, code string) bool {
	low := s.lowest()
	if blocked := low < in.id; blocked != (code == "RETRY") {
		return false
	}
	at := s.find(in.id)
	legal := true
	switch known := at >= 0; code {
	case "RECEIVED":
		if known {
			legal = s.accepted[at].body == in.body && s.below(in.id+linearWindow)
		} else {
			legal = s.accept(taken{in.id, in.body})
		}
		s.named = max(s.named, in.id)
		s.refused = slices.DeleteFunc(slices.Clone(s.refused), func(id uint64) bool { return id == in.id })
		return legal
	case "CONFLICT":
		legal = known && s.accepted[at].body != in.body && s.below(in.id+linearWindow)
	case "STALE":
		legal = known && s.reached(in.id+linearWindow)
	case "QUEUE_FULL":
		legal = !known && s.full(in.id)
	}
	if in.id > s.told {
		s.refused = append(slices.Clone(s.refused), in.id)
		slices.Sort(s.refused)
		s.refused = slices.Compact(s.refused)
	}
	return legal
}

func (s *contract) commit(id uint64, out outcome) bool {
	low, missing := s.lowest(), s.find(id) < 0
	if low <= id || out.code == "RETRY" {
		return out.code == "RETRY" && (low <= id || id > s.received())
	}
	switch out.code {
	case "ACK":
		most := min(s.named, low-1) // what this connection can know
		w := out.watermark
		legal := id <= w && w <= most && (w == most || s.below(w+1)) && s.reached(w)
		s.told = max(s.told, w)
		return legal
	case "RESEND":
		if missing {
			return id <= s.received()
		}
		return id > s.named && s.below(id+linearWindow) && s.reached(id)
	case "PENDING":
		return !missing && s.below(id) || id > s.named && s.reached(id+linearWindow)
	}
	return false
}

// below tells whether the server's watermark can be below n. It only rises, so nothing follows for later.
func (s *contract) below(n uint64) bool { return s.floor < n }

// reached tells whether the server's watermark can be n or more, and from now on it is.
func (s *contract) reached(n uint64) bool {
	s.floor = max(s.floor, n)
	return n <= s.stored
}

// accept takes a new batch: at most what no stored checkpoint covers is held.
func (s *contract) accept(b taken) bool {
	room := len(s.accepted)-s.covered < linearCapacity
	if b.id > s.received() && b.id > linearWindow {
		room = room && s.reached(b.id-linearWindow)
	}
	s.accepted = append(slices.Clip(s.accepted), b)
	return room
}

// full tells whether a new batch can be refused: all that the server need not have let go is held, or the
// number is too far from what the watermark need not be above, or the stream may be halted.
func (s *contract) full(id uint64) bool {
	released := 0
	for i, b := range s.accepted {
		if b.id <= s.floor {
			released = i + 1
		}
	}
	return len(s.accepted)-released >= linearCapacity || id > s.received() && id-s.floor > linearWindow || s.nacks >= linearNacks
}

// lowest is the lowest number the connection was refused and owes since.
func (s *contract) lowest() uint64 {
	if len(s.refused) == 0 {
		return 1 << 63
	}
	return s.refused[0]
}

func (s *contract) find(id uint64) int {
	return slices.IndexFunc(s.accepted, func(b taken) bool { return b.id == id })
}

func (s *contract) received() uint64 {
	highest := uint64(0)
	for _, b := range s.accepted {
		highest = max(highest, b.id)
	}
	return highest
}

// unbroken is the highest number up to which all are there.
func unbroken(list []taken) uint64 {
	n := uint64(0)
	for slices.ContainsFunc(list, func(b taken) bool { return b.id == n+1 }) {
		n++
	}
	return n
}

func same(list []taken, bodies []string) bool {
	return slices.EqualFunc(list, bodies, func(b taken, body string) bool { return b.body == body })
}

func (s contract) equal(o contract) bool {
	return s.sunk == o.sunk && s.covered == o.covered && s.stored == o.stored && s.floor == o.floor && s.nacks == o.nacks &&
		s.gone == o.gone && s.owner == o.owner && s.order == o.order && s.named == o.named && s.told == o.told &&
		slices.Equal(s.refused, o.refused) && slices.Equal(s.accepted, o.accepted)
}

func (s contract) hash() uint64 {
	var b []byte
	for _, n := range []uint64{uint64(s.sunk), s.stored, s.floor, s.gone, uint64(s.owner), uint64(s.order), uint64(len(s.refused))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, t := range s.accepted {
		b = append(b, t.body...)
	}
	return xxhash.Sum64(b)
}

func (s contract) String() string {
	return fmt.Sprintf("owner %d (named %d, told %d, refused %v) accepted %v, in the sink %d, stored %d, watermark at least %d, nacks %d",
		s.owner, s.named, s.told, s.refused, s.accepted, s.sunk, s.stored, s.floor, s.nacks)
}

func (in asked) String() string {
	switch in.verb {
	case "BATCH":
		return fmt.Sprintf("BATCH %s", in.body)
	case "COMMIT", "STORE":
		return fmt.Sprintf("%s %d", in.verb, in.id)
	case "SINK", "CONTENT":
		return fmt.Sprintf("%s %v", in.verb, in.bodies)
	default:
		return in.verb
	}
}

func (out outcome) String() string {
	if out.code == "ACK" {
		return fmt.Sprintf(": ACK %d", out.watermark)
	}
	if out.code == "" {
		return ""
	}
	return ": " + out.code
}
