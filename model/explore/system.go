package explore

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/statemachine"
)

// search is one exploration of the world of System.tla, or one run of a script.
type search struct {
	*Constants
	config   *Config
	maker    Maker
	checked  []func(*expander, *world) *fault
	shared   *streamPools
	sessions pool[*sessionFacts]
}

// Explore takes every step that System.tla knows, from every world that steps lead to, breadth first, on
// all processors. Result and counterexample are the same each time.
func Explore(cfg *Config, m Maker) *Result {
	x := newSearch(cfg, m)
	return breadthFirst(cfg.Name, x.expander)
}

// Run takes the steps of a script, one a line, the first one Init, and checks what [Explore] checks. The
// violation is nil when everything holds to the end. The error names the line with a step that is not
// one, or not possible, and what is.
//
// A line may begin with a number and a dot, and end with a remark behind #: the lines of a [Violation]
// are a script.
func Run(cfg *Config, m Maker, script string) (*Violation, error) {
	return run(cfg.Name, newSearch(cfg, m).expander(), script)
}

func newSearch(cfg *Config, m Maker) *search {
	x := &search{Constants: &cfg.Constants, config: cfg, maker: m, shared: newStreamPools()}
	for _, name := range cfg.Checked() {
		if holds := invariants[name]; holds != nil {
			x.checked = append(x.checked, func(e *expander, w *world) *fault {
				if err := holds(e, w); err != nil {
					return &fault{name, err.Error()}
				}
				return nil
			})
		}
	}
	return x
}

// expander finds the worlds that one step leads to. Each goroutine has one.
type expander struct {
	*search
	walk[world]
	streamHand
	sessions view[*sessionFacts]

	// to try a step on
	session Session
	state   statemachine.SessionState
}

// expander makes one; the first puts Fresh, its image and a new session in the first places.
func (x *search) expander() walker[world] {
	e := &expander{
		search: x, streamHand: newStreamHand(x.shared, x.maker, &x.Limits),
		sessions: view[*sessionFacts]{pool: &x.sessions}, session: x.maker.Connect(),
	}
	var w world
	e.keepStream(&w)
	e.keepSession(&w)
	return e
}

// actions are those of Next, in its order. The number is the batch of Produce, SendBatch and SendCommit, and n of
// DoEmit; a Crash that loses the store has 1.
var actions = []action[*expander]{
	{word{name: "Connect"}, (*expander).Connect},
	{word{name: "Produce", arg: true}, (*expander).Produce},
	{word{name: "SendBatch", arg: true}, (*expander).SendBatch},
	{word{name: "SendCommit", arg: true}, (*expander).SendCommit},
	{word{name: "TakeReply"}, (*expander).TakeReply},
	{word{name: "DoAnchor"}, (*expander).DoAnchor},
	{word{name: "Deny"}, (*expander).Deny},
	{word{name: "Serve"}, (*expander).Serve},
	{word{name: "DoEmit", arg: true}, (*expander).DoEmit},
	{word{name: "DoTake"}, (*expander).DoTake},
	{word{name: "DoSettle"}, (*expander).DoSettle},
	{word{name: "DoRollback"}, (*expander).DoRollback},
	{word{name: "DoRollbackOpen"}, (*expander).DoRollbackOpen},
	{word{name: "DoResume"}, (*expander).DoResume},
	{word{name: "DoSnapshot"}, (*expander).DoSnapshot},
	{word{name: "Flush"}, (*expander).Flush},
	{word{name: "Save"}, (*expander).Save},
	{word{name: "DoComplete"}, (*expander).DoComplete},
	{word{name: "DoAbort"}, (*expander).DoAbort},
	{word{name: "Break"}, (*expander).Break},
	{word{name: "Reset"}, (*expander).Reset},
	{word{name: "Crash"}, (*expander).Crash},
	{word{name: "Restart"}, (*expander).Restart},
}

var systemWords = wordsOf("System.tla", word{name: "Init", arg: true}, actions)

func (e *expander) words() *words { return systemWords }

func (e *expander) act(action int) { actions[action].take(e) }

// inits are Init with a choice of first, 1 or 2.
func (e *expander) inits() (list []successor[world]) {
	for first := uint8(1); first <= 2; first++ {
		list = append(list, successor[world]{
			world: world{first: first, produced: first - 1, up: true}, step: step{initStep, first}, ways: 1,
		})
	}
	return list
}

func (e *expander) remark(s step, from, to *world) string {
	switch name := systemWords.word(s).name; {
	case name == "Init":
		return "the number of the collector's first batch"
	case name == "TakeReply":
		return from.replies[0].String()
	case (name == "Deny" || name == "Serve") && to.replies.len() > 0:
		return to.replies[to.replies.len()-1].String()
	}
	return ""
}

// keepStream puts the stream at hand into the world, in its place among all streams.
func (e *expander) keepStream(w *world) { w.stream = e.forgetStored(e.putStream(), w.phase) }

// sessionFacts is a session and what System.tla calls refused, named and told.
type sessionFacts struct {
	session Session
	statemachine.SessionState
}

// keepSession is keepStream for the session at hand.
func (e *expander) keepSession(w *world) {
	st := &e.state
	e.session.State(st)
	key := binary.AppendUvarint(binary.AppendUvarint(e.key[:0], st.Named), st.Told)
	for _, r := range st.Refused {
		key = binary.AppendUvarint(binary.AppendUvarint(key, r.First), r.Last)
	}
	e.key = key
	id, found := e.sessions.find(key)
	if !found {
		facts := &sessionFacts{session: e.session, SessionState: *st}
		id = e.sessions.add(key, func(uint32) *sessionFacts { return facts })
		e.session, e.state = e.search.maker.Connect(), statemachine.SessionState{}
	}
	w.session = id
}
