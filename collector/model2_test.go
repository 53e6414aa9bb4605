package collector

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

// ingress2 is a model of the server in dialect 2: the ingress of dialect 1 behind a seat for one connection.
type ingress2 struct {
	*ingress
	instance string
	retired  []string
	asked    *protocol.Hello // WELCOME was said, and READY did not come
	owned    bool
	gap      uint64 // nothing above it is taken until it comes
	pushed   uint64

	parser2  protocol.Parser2
	replies2 []protocol.Reply2
	deny     bool // the next batch, for now
}

func (s *ingress2) say(r protocol.Reply2) { s.replies2 = append(s.replies2, r) }

func (s *ingress2) disconnect() {
	s.ingress.disconnect()
	s.asked, s.owned, s.gap, s.pushed, s.parser2, s.replies2 = nil, false, 0, 0, protocol.Parser2{}, nil
}

func (s *ingress2) crash() {
	s.disconnect()
	s.ingress.crash()
}

func begin(stream *statemachine.Stream, h *protocol.Hello) {
	first := h.First
	if first == 0 {
		first = stream.Received() + 1
	}
	if stream.Anchored() {
		stream.Rebase(first)
	} else {
		stream.Anchor(first)
	}
}

// serve takes the next message, if it is there.
func (s *ingress2) serve() {
	req, n, err := s.parser2.Next(s.wire)
	if err != nil {
		panic(err)
	}
	switch req.Command {
	case protocol.CommandHello:
		s.hello(req.Hello)
	case protocol.CommandReady:
		fresh := !s.stream.Anchored()
		begin(s.stream, s.asked)
		if fresh {
			s.save()
		}
		if s.instance != s.asked.Instance {
			s.retired = append(s.retired, s.instance)
			s.instance = s.asked.Instance
		}
		s.owned = true
	case protocol.CommandBatch:
		s.batch(req)
	case protocol.CommandPing:
		s.say(protocol.Reply2{Code: protocol.CodePong})
	case protocol.CommandBye:
		s.deliver()
		s.checkpoint()
		s.push()
		s.say(protocol.Reply2{Code: protocol.CodeBye})
	}
	s.wire = s.wire[n:]
}

func (s *ingress2) hello(h *protocol.Hello) {
	switch {
	case slices.Contains(s.retired, h.Instance):
		s.say(protocol.Reply2{Code: protocol.CodeError, Reason: protocol.CodeRetired})
	case h.Next != 0 && h.Next <= s.stream.Received():
		s.say(protocol.Reply2{Code: protocol.CodeError, Reason: protocol.CodeForgot})
	default:
		then := statemachine.New(&s.limits)
		then.CopyFrom(s.stream)
		begin(then, h)
		w := welcomes(then.Committed(), then.Received())
		for _, r := range then.Missing() {
			w.Missing = append(w.Missing, protocol.Range(r))
		}
		w.WindowBatches = uint64(s.limits.QueueCapacity)
		s.asked = h
		s.say(protocol.Reply2{Code: protocol.CodeWelcome, Welcome: w})
	}
}

func (s *ingress2) batch(req protocol.Request2) {
	if !s.owned || s.gap != 0 && req.ID > s.gap {
		return
	}
	payload := slices.Clone(req.Payload)
	b := statemachine.Batch{ID: req.ID, Digest: xxhash.Sum64(payload), Records: req.Records, Payload: payload}
	got := statemachine.QueueFull
	if !s.deny {
		got = s.stream.Receive(b)
	}
	s.deny = false
	switch got {
	case statemachine.Received:
		s.gap = 0
	case statemachine.QueueFull:
		s.gap = req.ID
		s.say(protocol.Reply2{Code: protocol.CodeResend, ID: req.ID, Wait: time.Millisecond})
	default:
		panic(fmt.Sprintf("batch %d gets %v", req.ID, got))
	}
}

func (s *ingress2) push() {
	if s.owned && s.stream.Committed() > s.pushed {
		s.pushed = s.stream.Committed()
		s.say(protocol.Reply2{Code: protocol.CodeAck, Watermark: s.pushed})
	}
}

// world2 is a core with its disk, and an ingress that faults come between.
type world2 struct {
	core      *Core2
	ingress   *ingress2
	now       time.Time
	connected bool
	window    uint64

	disk      []string // what is held, from the id first
	first     uint64
	numbers   Numbers
	sure      uint64 // ids from it on were stored since the ingress was reached
	reached   bool   // in this life
	instances int
	made      int
	forgotten []string        // acknowledged
	twice     map[string]bool // what may be there twice
}

func (w *world2) next() uint64 { return w.first + uint64(len(w.disk)) }

// start is a new process on the same disk.
func (w *world2) start() {
	if w.reached {
		w.sure = w.next()
	}
	w.sure, w.reached = max(w.first, min(w.sure, w.next())), false
	w.core = NewCore2("edge", "token", w.first, w.sure, w.numbers, Limits2{Batches: w.window, Bytes: 100})
	w.ingress.disconnect()
	w.connected = false
}

func (w *world2) instance() string {
	w.instances++
	return fmt.Sprint("instance ", w.instances)
}

func (w *world2) connect() {
	w.ingress.disconnect()
	w.ingress.wire = w.core.Connect(nil, w.next(), w.now)
	w.connected = true
}

func (w *world2) produce() {
	w.made++
	w.disk = append(w.disk, fmt.Sprint("batch ", w.made))
}

// work does what the core asks of its disk.
func (w *world2) work() {
	if w.core.Unstored() {
		w.numbers, w.reached = w.core.Numbers(), true
		w.core.Stored()
	}
	for w.core.Room() && w.core.end() < w.next() {
		w.core.Load(w.core.end(), batchOf(w.disk[w.core.end()-w.first]))
	}
}

func (w *world2) send(size int) {
	w.work()
	var copied Core2
	copied.CopyFrom(w.core)
	before, wire := string(w.core.AppendKey(nil)), slices.Clone(w.ingress.wire)
	w.ingress.wire = w.core.Send(w.ingress.wire, w.now, size)
	switch after := string(w.core.AppendKey(nil)); {
	case string(copied.AppendKey(nil)) != before:
		panic("a step changed a copy")
	case string(copied.Send(wire, w.now, size)) != string(w.ingress.wire), string(copied.AppendKey(nil)) != after:
		panic("a copy did something else")
	case len(w.ingress.wire) > len(wire) && before == after:
		panic("a step did not change the key")
	}
	copied.CopyFrom(w.core) // over what it had
	if string(copied.AppendKey(nil)) != string(w.core.AppendKey(nil)) {
		panic("a copy has another key")
	}
}

func (w *world2) takeReply(t require.TestingT) {
	if len(w.ingress.replies2) == 0 {
		return
	}
	r := w.ingress.replies2[0]
	w.ingress.replies2 = w.ingress.replies2[1:]
	switch err := w.core.TakeReply(r, w.now); err {
	case nil:
		w.forget()
	case ErrRetired, ErrForgot:
		for _, text := range w.disk {
			w.twice[text] = true
		}
		w.core.Anew(w.instance())
		w.numbers = w.core.Numbers()
		w.ingress.disconnect()
		w.connected = false
	default:
		require.NoError(t, err, "reply %v", r)
	}
}

// forget deletes from the disk what is acknowledged.
func (w *world2) forget() {
	for w.first <= w.core.Watermark() {
		w.forgotten = append(w.forgotten, w.disk[0])
		w.disk = w.disk[1:]
		w.first++
	}
}

// safe: what the collector forgot is durable, and what is durable is there once.
func (w *world2) safe(t require.TestingT) {
	times := map[string]int{}
	for _, payload := range w.ingress.durable {
		times[textOf(Batch{1, []byte(payload)})]++
	}
	for _, text := range w.forgotten {
		require.Positive(t, times[text], "%s is lost", text)
	}
	for text, n := range times {
		require.True(t, n == 1 || n == 2 && w.twice[text], "%s is there %d times", text, n)
	}
	_, bytes := w.core.Held()
	require.Less(t, bytes, int64(100+20))
}

// talk lets everything that is on its way arrive.
func (w *world2) talk(t require.TestingT) {
	if w.connected {
		w.send(1000)
	}
	for len(w.ingress.wire) > 0 {
		w.ingress.serve()
	}
	for len(w.ingress.replies2) > 0 {
		w.takeReply(t)
	}
}

// quiet lets everything happen, without faults, until all is acknowledged.
func (w *world2) quiet(t require.TestingT) {
	for range 100_000 {
		if len(w.disk) == 0 {
			return
		}
		if !w.connected {
			w.connect()
		}
		w.send(1000)
		w.ingress.serve()
		w.takeReply(t)
		w.ingress.deliver()
		w.ingress.checkpoint()
		w.ingress.push()
		w.now = w.now.Add(time.Millisecond)
	}
	require.Fail(t, "not everything is acknowledged", "first %d of %d", w.first, w.next())
}

// The core against the shipped state machine: broken connections, crashes of both sides, refusals, a lost disk and one
// that forgot its tail, between any two steps.
func TestCore2AgainstIngress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := statemachine.DefaultLimits()
		limits.QueueCapacity = rapid.IntRange(1, 8).Draw(t, "capacity")
		limits.KeepPayloads = rapid.Bool().Draw(t, "full")
		s := &ingress2{ingress: &ingress{limits: limits}, instance: "none"}
		s.stream = statemachine.New(&s.limits)
		w := &world2{ingress: s, now: epoch, window: rapid.Uint64Range(1, 16).Draw(t, "window"), first: 1, twice: map[string]bool{}}
		w.numbers.Instance = w.instance()
		w.start()
		actions := map[string]func(*rapid.T){
			"connect": func(*rapid.T) {
				if !w.connected {
					w.connect()
				}
			},
			"produce": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "batches") {
					w.produce()
				}
			},
			"send": func(t *rapid.T) {
				if w.connected {
					w.send(rapid.IntRange(1, 200).Draw(t, "size"))
				}
			},
			"serve":      func(*rapid.T) { s.serve() },
			"takeReply":  func(t *rapid.T) { w.takeReply(t) },
			"talk":       func(t *rapid.T) { w.talk(t) },
			"deliver":    func(*rapid.T) { s.deliver() },
			"checkpoint": func(*rapid.T) { s.checkpoint() },
			"push":       func(*rapid.T) { s.push() },
			"wait":       func(*rapid.T) { w.now = w.now.Add(10 * time.Millisecond) },
			"deny":       func(*rapid.T) { s.deny = true },
			"break":      func(*rapid.T) { s.disconnect(); w.connected = false },
			"crash":      func(*rapid.T) { s.crash(); w.connected = false },
			"restart":    func(*rapid.T) { w.start() },
			"reset": func(*rapid.T) { // the disk is lost
				w.disk, w.first, w.numbers = nil, 1, Numbers{Instance: w.instance()}
				w.start()
			},
			"forget": func(t *rapid.T) { // an older copy of the disk, which has what is held all the same
				w.disk = w.disk[:rapid.IntRange(0, len(w.disk)).Draw(t, "kept")]
				w.start()
			},
		}
		faults := []string{"break", "crash", "restart", "reset", "forget", "deny"}
		common := slices.DeleteFunc(slices.Sorted(maps.Keys(actions)), func(name string) bool { return slices.Contains(faults, name) })
		names := slices.Concat(common, common, common, common, faults)
		for range rapid.IntRange(100, 300).Draw(t, "steps") {
			actions[rapid.SampledFrom(names).Draw(t, "action")](t)
			w.safe(t)
		}
		w.quiet(t)
		w.safe(t)
	})
}
