package explore

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/collector"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

// pairs are collectors of two: the plain one, and the shipped core with its disk, which must decide the same. A
// disagreement is a panic.
type pairs struct{}

type pair struct {
	plainCollector
	core collector.Core2
	next uint64 // the id of the next batch on its disk
}

func (pairs) NewCollector(c *SeatConstants, instance string) Collector {
	k := &pair{plainCollector: *PlainCollectors{}.NewCollector(c, instance).(*plainCollector)}
	k.start(1, 1, collector.Numbers{Instance: instance})
	return k
}

// start is a new process, on a disk with these ids.
func (k *pair) start(first, next uint64, n collector.Numbers) {
	limits := collector.Limits2{Batches: uint64(k.constants.Window), Bytes: math.MaxInt32}
	k.core, k.next = *collector.NewCore2("edge", "token", first, next, n, limits), next
}

func (k *pair) CopyFrom(o Collector) {
	from := o.(*pair)
	k.plainCollector, k.next = from.plainCollector, from.next
	k.core.CopyFrom(&from.core)
}

func (k *pair) AppendKey(dst []byte) []byte {
	return k.core.AppendKey(append(k.plainCollector.AppendKey(dst), byte(k.next)))
}

// agree panics when the two differ, of which one said this and the other one that.
func (k *pair) agree(what string, plain, shipped any) {
	if plain != shipped {
		panic(fmt.Sprintf("%s: the plain collector says %v, the shipped one %v", what, plain, shipped))
	}
}

// same is what must be so after each step.
func (k *pair) same(what string) {
	n := k.core.Numbers()
	k.agree(what+": whether it has numbers", k.numbered, n.Known)
	if n.Known {
		first, next := k.Held()
		k.agree(what+": lowest number held", first, k.first()+uint64(n.Offset))
		k.agree(what+": next number", next, k.next+uint64(n.Offset))
	}
}

// first is the lowest id held.
func (k *pair) first() uint64 { return k.core.Watermark() + 1 }

// said is what the core sends: one message.
func (k *pair) said(text []byte) protocol.Request2 {
	var parser protocol.Parser2
	r, n, err := parser.Next(text)
	if err != nil || n != len(text) {
		panic(fmt.Sprintf("the shipped collector says %q: %d bytes are a message: %v", text, n, err))
	}
	return r
}

// Connect: after a restart the shipped collector may make a batch before it is welcomed, and not count it in HELLO. The
// plain one makes it afterwards.
func (k *pair) Connect() statemachine.Hello {
	h := k.plainCollector.Connect()
	next := k.next
	if !k.started {
		next++
	}
	say := k.said(k.core.Connect(nil, next, time.Time{})).Hello
	k.agree("HELLO", h, statemachine.Hello{Instance: say.Instance, First: say.First, Next: say.Next})
	return h
}

func (k *pair) Produce() {
	k.plainCollector.Produce()
	k.next++
	k.same("Produce")
}

// take gives an answer to the core.
func (k *pair) take(r protocol.Reply2) error { return k.core.TakeReply(r, time.Time{}) }

func (k *pair) Welcomed(w statemachine.Welcome) {
	k.plainCollector.Welcomed(w)
	said := &protocol.Welcome{
		Committed: w.Committed, Received: w.Received, WindowBatches: uint64(k.constants.Window), WindowBytes: math.MaxInt32,
	}
	for _, r := range w.Missing {
		said.Missing = append(said.Missing, protocol.Range(r))
	}
	k.agree("WELCOME", nil, k.take(protocol.Reply2{Code: protocol.CodeWelcome, Welcome: said}))
	k.core.Stored()
	k.agree("READY", protocol.CommandReady, k.said(k.core.Send(nil, time.Time{}, 1)).Command)
	k.same("WELCOME")
}

func (k *pair) SendBatch() (id uint64, skip, ok bool) {
	id, skip, ok = k.plainCollector.SendBatch()
	for end := k.end(); k.core.Room() && end < k.next; end++ {
		k.core.Load(end, collector.Batch{Records: 1, Payload: protocol.AppendRecord(nil, []byte("record"))})
	}
	text := k.core.Send(nil, time.Time{}, 1)
	k.agree("whether there is something to send", ok, len(text) > 0)
	if ok {
		r := k.said(text)
		k.agree("number sent", id, r.ID)
		k.agree("whether it is given up", skip, r.Command == protocol.CommandSkip)
	}
	return id, skip, ok
}

// end is the id of the next batch to be loaded.
func (k *pair) end() uint64 {
	batches, _ := k.core.Held()
	return k.first() + uint64(batches)
}

func (k *pair) Acked(watermark uint64) {
	k.plainCollector.Acked(watermark)
	k.agree("ACK", nil, k.take(protocol.Reply2{Code: protocol.CodeAck, Watermark: watermark}))
	k.same("ACK")
}

func (k *pair) SendAgain(id uint64) {
	k.plainCollector.SendAgain(id)
	k.agree("RESEND", nil, k.take(protocol.Reply2{Code: protocol.CodeResend, ID: id}))
	k.same("RESEND")
}

func (k *pair) Nacked(id uint64) {
	k.plainCollector.Nacked(id)
	var refused *collector.Refused
	err := k.take(protocol.Reply2{Code: protocol.CodeNack, ID: id, Reason: protocol.CodeDecodeFailed})
	k.agree("NACK", true, errors.As(err, &refused))
	k.agree("NACK of", id, refused.Number)
	k.core.Skip(refused.ID)
	k.same("NACK")
}

// Ended: after FENCED the shipped collector stays away, since it may be a copy; here another process of the same buffer
// connects.
func (k *pair) Ended(why Ended) (again bool) {
	again = k.plainCollector.Ended(why)
	ends := map[Ended]struct {
		reason protocol.Code
		want   error
	}{
		EndedFenced: {protocol.CodeFenced, collector.ErrFenced}, EndedRejected: {protocol.CodeRejected, collector.ErrRejected},
		EndedRetired: {protocol.CodeRetired, collector.ErrRetired}, EndedForgot: {protocol.CodeForgot, collector.ErrForgot},
	}
	k.agree("ERROR", ends[why].want, k.take(protocol.Reply2{Code: protocol.CodeError, Reason: ends[why].reason}))
	k.core.Disconnect()
	k.same("ERROR")
	return again
}

func (k *pair) Disconnect() {
	k.plainCollector.Disconnect()
	k.core.Disconnect()
	k.same("a broken connection")
}

// Anew: with nothing held the core begins anew itself. Otherwise it would keep what it holds, where the specification
// makes that again.
func (k *pair) Anew(instance string) {
	k.plainCollector.Anew(instance)
	if k.first() == k.next {
		k.core.Anew(instance)
	} else {
		k.start(1, 1, collector.Numbers{Instance: instance})
	}
	k.same("a new instance")
}

func (k *pair) Forget(last uint64) {
	k.plainCollector.Forget(last)
	n := k.core.Numbers()
	next := last + 1 - uint64(n.Offset)
	k.start(min(k.first(), next), next, n)
	k.same("a buffer without its end")
}

// mostWithShipped bounds the distinct worlds of a config that runs with the shipped collector.
const mostWithShipped = 400_000

// TestShippedCollector puts the shipped core of package collector beside the plain collector: both decide the same in
// each world, and the worlds are those of the specification, by TLC's count of them.
func TestShippedCollector(t *testing.T) {
	table := readCounts(t, "Seat")
	for _, cfg := range readSeatConfigs(t, "Seat_*") {
		want := table[cfg.Name].distinct
		if cfg.MustFail {
			continue
		}
		if os.Getenv(hunting) == "" && (want > mostWithShipped || raceDetector && want > mostWithRace) {
			t.Logf("%s: not with the shipped collector, it has %d worlds; %s=1 runs it", cfg.Name, want, hunting)
			continue
		}
		t.Run(cfg.Name, func(t *testing.T) {
			require.Equal(t, want, exploreWithShipped(t, cfg), "TLC's count, from docs/spec/README.md")
		})
	}
	t.Run("Seat_Window", func(t *testing.T) { // not counted with TLC
		cfg, err := ReadSeatConfig("testdata/Seat_Window.cfg")
		require.NoError(t, err)
		want := ExploreSeat(cfg, Shipped{}, PlainCollectors{})
		require.Nil(t, want.Violation, "%s", want.Violation)
		require.Equal(t, want.Distinct, exploreWithShipped(t, cfg), "the count with the plain collector alone")
	})
}

// exploreWithShipped counts the worlds, without what the shipped collector remembers besides.
func exploreWithShipped(t *testing.T, cfg *SeatConfig) int {
	x := newSeatSearch(cfg, Shipped{}, pairs{})
	worlds, plain := map[seatWorld]bool{}, map[string]uint32{}
	x.checked = append(x.checked, func(e *seatExpander, w *seatWorld) *fault {
		key := string(e.collectors.at(w.col).collector.(*pair).plainCollector.AppendKey(nil))
		if _, seen := plain[key]; !seen {
			plain[key] = uint32(len(plain))
		}
		as := *w
		as.col = plain[key]
		worlds[as] = true
		return nil
	})
	got := breadthFirst(cfg.Name, x.expander)
	require.Nil(t, got.Violation, "%s", got.Violation)
	t.Logf("%s: %d worlds, %d with what the shipped collector remembers besides", cfg.Name, len(worlds), got.Distinct)
	return len(worlds)
}
