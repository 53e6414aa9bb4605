package explore

import (
	"fmt"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

// seatSearch is one exploration of the world of Seat.tla, or one run of a script.
type seatSearch struct {
	*SeatConstants
	makers struct {
		seats      SeatMaker
		collectors CollectorMaker
	}
	checked    []func(*seatExpander, *seatWorld) *fault
	lostIsGone bool

	shared     *streamPools
	seats      pool[*seatFacts]
	kept       pool[statemachine.SeatImage] // of seats, in the store
	collectors pool[*collectorFacts]
}

// seatFacts is a seat and what the world wants to know of it again and again.
type seatFacts struct {
	seat  Seat
	owner uint8
	image uint32 // in seatSearch.kept
	fault error  // why two of them would write, or may
}

// collectorFacts is a collector and what the world wants to know of it again and again.
type collectorFacts struct {
	collector            Collector
	numbered, mayProduce bool
	first, next          uint8
}

// ExploreSeat is [Explore] in the world of Seat.tla.
func ExploreSeat(cfg *SeatConfig, m SeatMaker, k CollectorMaker) *Result {
	x := newSeatSearch(cfg, m, k)
	return breadthFirst(cfg.Name, x.expander)
}

// RunSeat is [Run] in the world of Seat.tla.
func RunSeat(cfg *SeatConfig, m SeatMaker, k CollectorMaker, script string) (*Violation, error) {
	return run(cfg.Name, newSeatSearch(cfg, m, k).expander(), script)
}

func newSeatSearch(cfg *SeatConfig, m SeatMaker, k CollectorMaker) *seatSearch {
	x := &seatSearch{SeatConstants: &cfg.Constants, shared: newStreamPools()}
	x.makers.seats, x.makers.collectors = m, k
	for _, name := range cfg.Checked() {
		holds := seatInvariants[name]
		if name == "LostIsGone" {
			x.lostIsGone = true
			continue
		}
		x.checked = append(x.checked, func(e *seatExpander, w *seatWorld) *fault {
			if err := holds(e, w); err != nil {
				return &fault{name, err.Error()}
			}
			return nil
		})
	}
	return x
}

// seatExpander finds the worlds that one step leads to. Each goroutine has one.
type seatExpander struct {
	*seatSearch
	walk[seatWorld]
	streamHand
	seats      view[*seatFacts]
	kept       view[statemachine.SeatImage]
	collectors view[*collectorFacts]

	// to try a step on
	seat      Seat
	collector Collector
}

// expander makes one; the first puts Fresh, its image, NewSeat and its image, and NewCollector in the first places.
func (x *seatSearch) expander() walker[seatWorld] {
	e := &seatExpander{
		seatSearch: x, streamHand: newStreamHand(x.shared, x.makers.seats, &x.Limits),
		seats: view[*seatFacts]{pool: &x.seats}, kept: view[statemachine.SeatImage]{pool: &x.kept},
		collectors: view[*collectorFacts]{pool: &x.collectors},
		seat:       x.makers.seats.RestoreSeat(statemachine.SeatImage{}),
		collector:  x.makers.collectors.NewCollector(x.SeatConstants, instanceNames[1]),
	}
	var w seatWorld
	e.keepStream(&w)
	e.keepSeat(&w)
	e.keepCollector(&w)
	return e
}

// seatActions are those of Next, in its order. The number is the connection, and the last number that is left of Forget.
var seatActions = []action[*seatExpander]{
	{word{name: "Connect"}, (*seatExpander).Connect},
	{word{name: "Produce"}, (*seatExpander).Produce},
	{word{name: "SendBatch"}, (*seatExpander).SendBatch},
	{word{name: "TakeReply"}, (*seatExpander).TakeReply},
	{word{name: "StartAnew"}, (*seatExpander).StartAnew},
	{word{name: "DoPush"}, (*seatExpander).DoPush},
	{word{name: "DoLeave"}, (*seatExpander).DoLeave},
	{word{"DoHello", true, 1}, func(e *seatExpander) { e.DoHello(1) }},
	{word{"DoReady", true, 1}, func(e *seatExpander) { e.DoReady(1) }},
	{word{"DoReceive", true, 1}, func(e *seatExpander) { e.DoReceive(1) }},
	{word{"DoSkip", true, 1}, func(e *seatExpander) { e.DoSkip(1) }},
	{word{"DoRefuse", true, 1}, func(e *seatExpander) { e.DoRefuse(1) }},
	{word{"DoHello", true, 2}, func(e *seatExpander) { e.DoHello(2) }},
	{word{"DoReady", true, 2}, func(e *seatExpander) { e.DoReady(2) }},
	{word{"DoReceive", true, 2}, func(e *seatExpander) { e.DoReceive(2) }},
	{word{"DoSkip", true, 2}, func(e *seatExpander) { e.DoSkip(2) }},
	{word{"DoRefuse", true, 2}, func(e *seatExpander) { e.DoRefuse(2) }},
	{word{name: "DoEmit"}, (*seatExpander).DoEmit},
	{word{name: "DoSettle"}, (*seatExpander).DoSettle},
	{word{name: "DoSnapshot"}, (*seatExpander).DoSnapshot},
	{word{name: "Save"}, (*seatExpander).Save},
	{word{name: "DoComplete"}, (*seatExpander).DoComplete},
	{word{name: "Break"}, (*seatExpander).Break},
	{word{name: "Reset"}, (*seatExpander).Reset},
	{word{name: "Forget", arg: true}, (*seatExpander).Forget},
	{word{name: "Crash"}, (*seatExpander).Crash},
	{word{name: "Restart"}, (*seatExpander).Restart},
}

var seatWords = wordsOf("Seat.tla", word{name: "Init"}, seatActions)

func (e *seatExpander) words() *words { return seatWords }

func (e *seatExpander) act(action int) { seatActions[action].take(e) }

func (e *seatExpander) inits() []successor[seatWorld] {
	return []successor[seatWorld]{{world: seatWorld{up: true, instance: 1}, step: step{initStep, 0}, ways: 1}}
}

// remark is what the collector sent or read, or what the server read and answered.
func (e *seatExpander) remark(s step, from, to *seatWorld) string {
	switch name := seatWords.word(s).name; {
	case name == "TakeReply":
		return from.replies[from.conn-1][0].String()
	case name == "SendBatch" || name == "Connect":
		wire := &to.wire[to.conn-1]
		return fmt.Sprint("on ", to.conn, ": ", wire[wire.len()-1])
	case seatWords.word(s).only > 0:
		heard := []string{from.wire[s.arg-1][0].String()}
		for c := range to.replies {
			for _, a := range to.replies[c][from.replies[c].len():to.replies[c].len()] {
				heard = append(heard, fmt.Sprint("; on ", c+1, ": ", a))
			}
		}
		return strings.Join(heard, "")
	}
	return ""
}

// loadStream makes e.stream a copy of the stream at hand, loadSeat and loadCollector e.seat and e.collector of those.
func (e *seatExpander) loadStream()    { e.stream.CopyFrom(e.now().stream) }
func (e *seatExpander) loadSeat()      { e.seat.CopyFrom(e.seats.at(e.from.seat).seat) }
func (e *seatExpander) loadCollector() { e.collector.CopyFrom(e.col().collector) }

// now is what is known of the stream at hand, and col of the collector.
func (e *seatExpander) now() *streamFacts    { return e.streams.at(e.from.stream) }
func (e *seatExpander) col() *collectorFacts { return e.collectors.at(e.from.col) }

// keepStream puts the stream at hand into the world, in its place among all streams.
func (e *seatExpander) keepStream(w *seatWorld) { w.stream = e.forgetStored(e.putStream(), w.phase) }

// keepSeat is keepStream for the seat at hand.
func (e *seatExpander) keepSeat(w *seatWorld) {
	e.key = e.seat.AppendKey(e.key[:0])
	id, found := e.seats.find(e.key)
	if !found {
		facts := e.describeSeat()
		id = e.seats.add(e.key, func(uint32) *seatFacts { return facts })
		e.seat = e.makers.seats.RestoreSeat(statemachine.SeatImage{}) // the old one is shared from now on
	}
	w.seat = id
}

// keepCollector is keepStream for the collector at hand.
func (e *seatExpander) keepCollector(w *seatWorld) {
	e.key = e.collector.AppendKey(e.key[:0])
	id, found := e.collectors.find(e.key)
	if !found {
		k := e.collector
		first, next := k.Held()
		facts := &collectorFacts{k, k.Numbered(), k.MayProduce(), uint8(first), uint8(next)}
		id = e.collectors.add(e.key, func(uint32) *collectorFacts { return facts })
		e.collector = e.makers.collectors.NewCollector(e.SeatConstants, instanceNames[1])
	}
	w.col = id
}
