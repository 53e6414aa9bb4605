package explore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

// step is an action of System.tla and its argument: the batch of Produce, SendBatch and SendCommit, n of
// DoEmit, 1 for a Crash that loses the store, else 0. As text it is a line of a script.
type step struct{ action, arg uint8 }

// initStep stands for Init and what it chooses, first.
const initStep = 255

// actions are those of Next, in its order.
var actions = [...]struct {
	name string
	take func(*expander)
	arg  bool // its text has a number
}{
	{"Connect", (*expander).Connect, false},
	{"Produce", (*expander).Produce, true},
	{"SendBatch", (*expander).SendBatch, true},
	{"SendCommit", (*expander).SendCommit, true},
	{"TakeReply", (*expander).TakeReply, false},
	{"DoAnchor", (*expander).DoAnchor, false},
	{"Deny", (*expander).Deny, false},
	{"Serve", (*expander).Serve, false},
	{"DoEmit", (*expander).DoEmit, true},
	{"DoTake", (*expander).DoTake, false},
	{"DoSettle", (*expander).DoSettle, false},
	{"DoRollback", (*expander).DoRollback, false},
	{"DoRollbackOpen", (*expander).DoRollbackOpen, false},
	{"DoResume", (*expander).DoResume, false},
	{"DoSnapshot", (*expander).DoSnapshot, false},
	{"Flush", (*expander).Flush, false},
	{"Save", (*expander).Save, false},
	{"DoComplete", (*expander).DoComplete, false},
	{"DoAbort", (*expander).DoAbort, false},
	{"Break", (*expander).Break, false},
	{"Reset", (*expander).Reset, false},
	{"Crash", (*expander).Crash, false},
	{"Restart", (*expander).Restart, false},
}

// String is the step as a line of a script.
func (s step) String() string {
	switch {
	case s.action == initStep || actions[s.action].arg:
		return fmt.Sprint(s.name(), " ", s.arg)
	case s.arg > 0:
		return s.name() + " lost"
	default:
		return s.name()
	}
}

// parseStep is the inverse of String. It overlooks a number with a dot in front, and what stands
// behind #; of an empty line it says false.
func parseStep(line string) (s step, some bool, err error) {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	if len(words) > 0 && strings.HasSuffix(words[0], ".") {
		words = words[1:]
	}
	if len(words) == 0 {
		return s, false, nil
	}
	if len(words) == 2 {
		n, err := strconv.ParseUint(strings.Replace(words[1], "lost", "1", 1), 10, 8)
		if err != nil {
			return s, false, fmt.Errorf("%q: want a number up to 255, or lost", words[1])
		}
		s.arg = uint8(n)
	}
	s.action = initStep
	for i := range actions {
		if actions[i].name == words[0] {
			s.action = uint8(i)
		}
	}
	if text := strings.Join(words, " "); s.String() != text {
		return s, false, fmt.Errorf("%q: not a step; the names are those of System.tla", text)
	}
	return s, true, nil
}

// line is the step with a remark on what its text does not tell: what was answered, or heard.
func (s step) line(from, to *world) string {
	remark := ""
	switch name := s.name(); {
	case name == "Init":
		remark = "the number of the collector's first batch"
	case name == "TakeReply":
		remark = from.replies[0].String()
	case (name == "Deny" || name == "Serve") && to.replies.len() > 0:
		remark = to.replies[to.replies.len()-1].String()
	default:
		return s.String()
	}
	return fmt.Sprintf("%-14s # %s", s, remark)
}

func (s step) name() string {
	if s.action == initStep {
		return "Init"
	}
	return actions[s.action].name
}

// expander finds the worlds that one step leads to. Each goroutine has one.
type expander struct {
	*search
	streams  view[*streamFacts]
	images   view[*imageFacts]
	sessions view[*sessionFacts]

	at     uint32 // the place of the world at hand
	from   *world // that world
	action uint8
	out    []successor
	fault  *fault // of the last of out

	// to try a step on
	stream  Stream
	session Session
	key     []byte
	state   statemachine.SessionState
}

// successor is a world, and the step that leads to it from the parent.
type successor struct {
	world
	parent uint32
	step   step
	ways   uint8 // how often TLC counts the step
	hash   uint32
}

// next begins the world that a step leads to, as a copy of that at hand. The pointer is valid until the
// next call.
func (e *expander) next(arg uint8) *world {
	e.out = append(e.out, successor{world: *e.from, parent: e.at, step: step{e.action, arg}, ways: 1})
	return &e.out[len(e.out)-1].world
}

// halves says that the guard of the last step has an "or", and which halves of it are true: TLC counts
// the step once for each.
func (e *expander) halves(left, right bool) {
	if left && right {
		e.out[len(e.out)-1].ways = 2
	}
}
