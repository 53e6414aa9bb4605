package server

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
	"github.com/cespare/xxhash/v2"

	"github.com/tidemark/tidemark/protocol"
)

// The contract of one stream in dialect 2 as a sequential specification: docs/spec/Seat.tla without the steps that
// nobody outside sees. Nothing here comes from package statemachine.

// linearWindow2 is how many numbers above the watermark a collector may send.
const linearWindow2 = linearCapacity

// nobody2 is a connection that has not been welcomed, one2 one that took over nobody.
const nobody2, one2 = 0, 63

// contract2 is the state. What it shares with dialect 1 is the stream: accepted batches, sink, store and watermark; of
// the session only order and told are used. Slices are shared between states and never written to.
type contract2 struct {
	contract
	instance string
	retired  []string
	asker    int             // connection that was welcomed and did not say READY; 0: none
	asked    *protocol.Hello // what it said
	welcomed uint64          // the watermark that it was told
	fenced   uint64          // connections that a newer one took over, one bit each
	ended    uint64          // those of them that were told, after which they hear nothing
	older    [64]uint8       // the connection that each one took over
	gap      uint64          // number the owner was refused for now; 0: none
	anchored bool
	base     uint64   // numbers up to this were never the stream's
	highest  uint64   // number accepted or given up
	lost     []uint64 // numbers given up
}

// linearModel2 is the contract of each collector in dialect 2.
var linearModel2 = porcupine.Model{
	Partition: byCollector,
	Init:      func() any { return contract2{} },
	Step: func(state, input, output any) (bool, any) {
		s := state.(contract2)
		legal := s.step(input.(asked), output.(outcome))
		return legal, s
	},
	Equal:             func(a, b any) bool { return a.(contract2).equal(b.(contract2)) },
	Hash:              func(state any) uint64 { return state.(contract2).hash() },
	DescribeOperation: func(input, output any) string { return describe2(input.(asked), output.(outcome)) },
	DescribeState:     func(state any) string { return state.(contract2).String() },
}

// step tells whether the operation is legal now, and takes it. A request without an answer was served while its
// connection had the seat, or changed nothing and comes after that. PASSED is what a later answer on the connection
// shows: the request was served, and there was nothing to say.
func (s *contract2) step(in asked, out outcome) bool {
	switch in.verb {
	case "HELLO":
		return s.hello(in, out)
	case "READY":
		return out.code == "" && s.left(in.from) || s.ready(in.from)
	case "BATCH", "SKIP":
		return s.request(in, out.code)
	case "CLOSE":
		s.leave(in.from)
		return true
	case "FENCES": // before WELCOME is told, the one taken over is
		older := s.older[in.from]
		s.ended |= 1 << older
		s.older[in.from] = nobody2 // states that differ in what is over make the check long
		return older != nobody2
	case "FENCED": // it is told
		return s.fenced>>in.from&1 == 1
	case "ERROR": // for another reason: nothing that a client says here gives one
		return false
	case "ACKED": // it is told
		return s.acked(in.from, in.id)
	case "STORE": // nothing above what the sink has or was given up
		legal := in.id >= s.stored && in.id <= s.finished(s.accepted[:s.sunk])
		s.stored, s.covered = in.id, s.sunk
		return legal
	case "CONTENT":
		return same(s.accepted, in.bodies) && s.stored == s.highest && s.finished(s.accepted) == s.highest
	}
	return s.behind(in)
}

// reply is what HELLO must be answered.
func (s *contract2) reply(h *protocol.Hello) string {
	switch {
	case slices.Contains(s.retired, h.Instance):
		return "RETIRED"
	case h.Instance != s.instance && s.owner != 0:
		return "REJECTED"
	case h.Next != 0 && h.Next <= s.highest:
		return "FORGOT"
	}
	return "WELCOME"
}

// hello takes the seat from who has it or is about to. Nothing else changes.
func (s *contract2) hello(in asked, out outcome) bool {
	if out.code == "" && s.left(in.from) {
		return true
	}
	code := s.reply(in.hello)
	if out.code != "" && out.code != code {
		return false
	}
	if code != "WELCOME" {
		return true
	}
	legal := out.code == "" || s.describes(in.hello, out.welcome)
	for _, older := range []int{s.owner, s.asker} {
		if older != 0 {
			s.fenced |= 1 << older
			s.gone |= 1 << older
		}
	}
	if out.code != "" {
		s.older[in.from] = one2
		if s.owner != 0 {
			s.older[in.from] = uint8(s.owner)
		}
	}
	s.owner, s.session, s.gap = 0, session{}, 0
	s.asker, s.asked, s.welcomed = in.from, in.hello, s.floor
	return legal
}

// describes tells whether WELCOME says where the stream will stand. It raises what the watermark is known to be.
func (s *contract2) describes(h *protocol.Hello, w *protocol.Welcome) bool {
	first := s.first(h)
	if !s.anchored {
		return w.Committed == first-1 && w.Received == first-1 && len(w.Missing)+len(w.Lost) == 0
	}
	legal := w.Received == max(s.highest, first-1) && w.Committed <= s.stored && w.Committed >= s.floor
	s.floor = max(s.floor, w.Committed)
	lost, missing := s.without(first)
	return legal && slices.Equal(numbersOf(w.Missing), missing) && slices.Equal(numbersOf(w.Lost), lost)
}

// without is what a collector whose numbers begin at first can't send any more, and what it must send of those up to
// the highest.
func (s *contract2) without(first uint64) (lost, missing []uint64) {
	for id := s.base + 1; id <= max(s.highest, first-1); id++ {
		switch {
		case !s.wanted(id):
		case id < first:
			lost = append(lost, id)
		default:
			missing = append(missing, id)
		}
	}
	return lost, missing
}

func (s *contract2) first(h *protocol.Hello) uint64 {
	if h.First == 0 {
		return s.highest + 1
	}
	return h.First
}

// ready gives the seat to the last that was welcomed, and to nobody else.
func (s *contract2) ready(from int) bool {
	if s.asker != from {
		return false
	}
	first := s.first(s.asked)
	if !s.anchored {
		s.anchored, s.base, s.highest, s.stored, s.floor = true, first-1, first-1, first-1, first-1
		s.welcomed = s.floor
	}
	lost, _ := s.without(first)
	s.lost = slices.Concat(s.lost, lost)
	slices.Sort(s.lost)
	s.highest = max(s.highest, first-1)
	if s.instance != s.asked.Instance {
		if s.instance != "" {
			s.retired = append(slices.Clip(s.retired), s.instance)
		}
		s.instance = s.asked.Instance
	}
	s.owner, s.session = from, session{order: 2, told: max(s.welcomed, 1) - 1}
	s.asker, s.asked, s.welcomed, s.gap = 0, nil, 0, 0
	return true
}

func (s *contract2) leave(from int) {
	if s.owner == from {
		s.owner, s.session, s.gap = 0, session{}, 0
	}
	if s.asker == from {
		s.asker, s.asked, s.welcomed = 0, nil, 0
	}
	s.gone |= 1 << from
}

// request is what comes under a number.
func (s *contract2) request(in asked, code string) bool {
	if code == "" && s.left(in.from) {
		return true
	}
	if !s.turn(in) { // it may pass in silence until the connection is told that it is over
		return code == "PASSED" && s.fenced>>in.from&1 == 1 && s.ended>>in.from&1 == 0
	}
	if code != "" {
		s.order++
	}
	if s.gap != 0 && in.id > s.gap {
		return code == "PASSED"
	}
	if in.verb == "SKIP" {
		s.took(in.id)
		if s.wanted(in.id) {
			s.lost = append(slices.Clip(s.lost), in.id)
			slices.Sort(s.lost)
			s.highest = max(s.highest, in.id)
		}
		return code == "" || code == "PASSED"
	}
	if code == "" { // served, it was taken or refused for good; otherwise it comes after the connection
		code = "PASSED"
		if undecodable(in.body) {
			code = "DECODE_FAILED"
		}
	}
	return s.batch(in, code)
}

func (s *contract2) batch(in asked, code string) bool {
	at := s.find(in.id)
	known, wanted := at >= 0, s.wanted(in.id)
	if code == "RESEND" {
		s.gap = in.id
		return wanted && s.full(in.id) && !undecodable(in.body)
	}
	s.took(in.id)
	switch code {
	case "DECODE_FAILED":
		return undecodable(in.body)
	case "STALE":
		return !wanted && (!known || s.reached(in.id+linearWindow))
	case "CONFLICT":
		return known && s.accepted[at].body != in.body && s.below(in.id+linearWindow)
	}
	if !wanted || undecodable(in.body) {
		return known && s.accepted[at].body == in.body && s.below(in.id+linearWindow)
	}
	if in.place != 0 && in.place != len(s.accepted)+1 {
		return false // nothing accepted stays out of the sink, so why go on: the check is shorter
	}
	s.highest = max(s.highest, in.id)
	return code == "PASSED" && s.accept(taken{in.id, in.body})
}

func (s *contract2) took(id uint64) {
	if id == s.gap {
		s.gap = 0
	}
}

// wanted tells whether the number was neither accepted nor given up.
func (s *contract2) wanted(id uint64) bool {
	return id > s.base && s.find(id) < 0 && !slices.Contains(s.lost, id)
}

// acked tells whether the watermark is stored, and rises on the connection that has the seat. The first ACK may say
// what WELCOME said.
func (s *contract2) acked(from int, w uint64) bool {
	if s.owner == from {
		if w <= s.told {
			return false
		}
		s.told = w
	}
	return (s.owner == from || s.asker == from || s.left(from)) && s.reached(w)
}

// finished is the highest number up to which all are in the list or given up.
func (s *contract2) finished(list []taken) uint64 {
	n := s.base
	for slices.ContainsFunc(list, func(b taken) bool { return b.id == n+1 }) || slices.Contains(s.lost, n+1) {
		n++
	}
	return n
}

// undecodable batches hold another number of records than their header tells.
func undecodable(body string) bool { return strings.HasSuffix(body, "!") }

func numbersOf(list []protocol.Range) (all []uint64) {
	for _, r := range list {
		for id := r.First; id <= r.Last; id++ {
			all = append(all, id)
		}
	}
	return all
}

func (s contract2) equal(o contract2) bool {
	return s.contract.equal(o.contract) && s.instance == o.instance && s.asker == o.asker && s.asked == o.asked &&
		s.welcomed == o.welcomed && s.fenced == o.fenced && s.ended == o.ended && s.older == o.older && s.gap == o.gap && s.anchored == o.anchored && s.base == o.base &&
		s.highest == o.highest && slices.Equal(s.retired, o.retired) && slices.Equal(s.lost, o.lost)
}

func (s contract2) hash() uint64 {
	b := binary.AppendUvarint(nil, s.contract.hash())
	for _, n := range []uint64{uint64(s.asker), s.fenced, s.ended, s.gap, s.highest, uint64(len(s.lost)), uint64(len(s.retired))} {
		b = binary.AppendUvarint(b, n)
	}
	return xxhash.Sum64(b)
}

func (s contract2) String() string {
	return fmt.Sprintf("%s (before: %v), asker %d, gap %d, highest %d, given up %v; %s",
		s.instance, s.retired, s.asker, s.gap, s.highest, s.lost, s.contract)
}

func describe2(in asked, out outcome) string {
	switch {
	case in.verb == "SKIP" || in.verb == "ACKED":
		return fmt.Sprintf("%s %d", in.verb, in.id)
	case in.hello != nil && out.welcome != nil:
		w := out.welcome
		return fmt.Sprintf("HELLO %s %d-%d: committed %d, received %d, missing %v, lost %v",
			in.hello.Instance, in.hello.First, in.hello.Next, w.Committed, w.Received, w.Missing, w.Lost)
	case in.hello != nil:
		return fmt.Sprintf("HELLO %s %d-%d%s", in.hello.Instance, in.hello.First, in.hello.Next, out)
	}
	return in.String() + out.String()
}
