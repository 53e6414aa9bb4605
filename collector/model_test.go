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

// ingress is a model of the server in one piece: the shipped state machine, a sink and a store that commit in one step,
// and one connection.
type ingress struct {
	limits  statemachine.Limits
	stream  *statemachine.Stream
	session statemachine.Session
	image   statemachine.Image
	open    []string // delivered, not durable
	durable []string
	number  uint64

	wire    []byte // requests on their way
	parser  protocol.Parser
	replies []protocol.Reply
}

func newIngress(limits statemachine.Limits) *ingress {
	s := &ingress{limits: limits}
	s.stream = statemachine.New(&s.limits)
	s.stream.Anchor(1)
	s.save()
	return s
}

func (s *ingress) save() {
	if err := s.image.Apply(s.stream.AppendDelta(nil)); err != nil {
		panic(err)
	}
}

// serve answers the next request, if it is there.
func (s *ingress) serve() {
	req, n, err := s.parser.Next(s.wire)
	if err != nil {
		panic(err)
	}
	switch req.Command {
	case protocol.CommandAuth:
		s.replies = append(s.replies, protocol.Reply{Code: protocol.CodeAck})
	case protocol.CommandBatch:
		payload := slices.Clone(req.Payload)
		b := statemachine.Batch{ID: req.ID, Digest: xxhash.Sum64(payload), Records: 1, Payload: payload}
		s.replies = append(s.replies, reply(s.session.Receive(s.stream, b), 0))
	case protocol.CommandCommit:
		s.replies = append(s.replies, reply(s.session.Commit(s.stream, req.ID)))
	}
	s.wire = s.wire[n:]
}

func reply(r statemachine.Reply, watermark uint64) protocol.Reply {
	code := map[statemachine.Reply]protocol.Code{
		statemachine.Received: protocol.CodeReceived, statemachine.QueueFull: protocol.CodeQueueFull,
		statemachine.Retry: protocol.CodeRetry, statemachine.Conflict: protocol.CodeConflict,
		statemachine.Stale: protocol.CodeStale, statemachine.Ack: protocol.CodeAck,
		statemachine.Resend: protocol.CodeResend, statemachine.Pending: protocol.CodePending,
	}[r]
	return protocol.Reply{Code: code, Watermark: watermark, Wait: time.Millisecond}
}

func (s *ingress) deliver() {
	n := s.stream.Queued()
	if !s.stream.CanEmit(n) {
		return
	}
	for _, b := range s.stream.Emit(n) {
		s.open = append(s.open, string(b.Payload))
	}
	s.stream.Settle(n)
}

func (s *ingress) checkpoint() {
	if !s.stream.Dirty() {
		return
	}
	s.number++
	s.stream.Snapshot(s.number)
	s.save()
	s.durable = append(s.durable, s.open...)
	s.open = nil
	s.stream.Complete(s.number)
}

func (s *ingress) disconnect() {
	s.session, s.parser, s.wire, s.replies = statemachine.Session{}, protocol.Parser{}, nil, nil
}

func (s *ingress) crash() {
	s.disconnect()
	image := s.image
	image.Queue, image.Missing, image.Digests = slices.Clone(image.Queue), slices.Clone(image.Missing), slices.Clone(image.Digests)
	stream, err := statemachine.Restore(&s.limits, &image)
	if err != nil {
		panic(err)
	}
	s.stream, s.open = stream, nil
}

// world is a core and an ingress that faults come between.
type world struct {
	core      *Core
	ingress   *ingress
	now       time.Time
	connected bool
	made      []string
}

func (w *world) connect() {
	w.ingress.disconnect()
	w.ingress.wire = w.core.Connect(nil, "token")
	w.connected = true
}

func (w *world) produce() {
	record := fmt.Sprint("record ", len(w.made)+1)
	w.made = append(w.made, record)
	w.core.Produce([]byte(record))
}

func (w *world) takeReply(t require.TestingT) {
	if len(w.ingress.replies) > 0 {
		r := w.ingress.replies[0]
		w.ingress.replies = w.ingress.replies[1:]
		require.NoError(t, w.core.TakeReply(r, w.now), "reply %v", r)
	}
}

// talk lets everything that is on its way arrive.
func (w *world) talk(t require.TestingT) {
	if w.connected {
		w.ingress.wire = w.core.Send(w.ingress.wire, w.now, 1000)
	}
	for len(w.ingress.wire) > 0 {
		w.ingress.serve()
	}
	for len(w.ingress.replies) > 0 {
		w.takeReply(t)
	}
}

// safe: what the collector forgot is durable; what is durable is a beginning of what was made, each once, in order.
func (w *world) safe(t require.TestingT) {
	require.LessOrEqual(t, w.core.Watermark(), uint64(len(w.ingress.durable)))
	require.True(t, slices.Equal(w.made[:len(w.ingress.durable)], w.ingress.durable), "durable is %v", w.ingress.durable)
	held, _ := w.core.Held()
	require.Equal(t, uint64(len(w.made)), w.core.Watermark()+uint64(held))
}

// quiet lets everything happen, without faults, until all is acknowledged.
func (w *world) quiet(t require.TestingT) {
	if !w.connected {
		w.connect()
	}
	for range 100_000 {
		if held, _ := w.core.Held(); held == 0 {
			return
		}
		w.ingress.wire = w.core.Send(w.ingress.wire, w.now, 1000)
		w.ingress.serve()
		w.takeReply(t)
		w.ingress.deliver()
		w.ingress.checkpoint()
		w.now = w.now.Add(time.Millisecond)
	}
	require.Fail(t, "not everything is acknowledged", "watermark %d of %d", w.core.Watermark(), len(w.made))
}

// The core against the shipped state machine, with broken connections and crashes between any two steps.
func TestCoreAgainstIngress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := statemachine.DefaultLimits()
		limits.QueueCapacity = rapid.IntRange(1, 8).Draw(t, "capacity")
		limits.KeepPayloads = rapid.Bool().Draw(t, "full")
		w := &world{
			core: NewCore(1, nil, rapid.IntRange(1, 16).Draw(t, "window"), Backoff{Min: time.Millisecond, Max: 8 * time.Millisecond},
				func() float64 { return 0.5 }),
			ingress: newIngress(limits), now: epoch,
		}
		actions := map[string]func(*rapid.T){
			"connect": func(*rapid.T) {
				if !w.connected {
					w.connect()
				}
			},
			"produce": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "records") {
					w.produce()
				}
			},
			"send": func(t *rapid.T) {
				if w.connected {
					w.ingress.wire = w.core.Send(w.ingress.wire, w.now, rapid.IntRange(1, 200).Draw(t, "size"))
				}
			},
			"serve":      func(*rapid.T) { w.ingress.serve() },
			"takeReply":  func(t *rapid.T) { w.takeReply(t) },
			"talk":       func(t *rapid.T) { w.talk(t) },
			"deliver":    func(*rapid.T) { w.ingress.deliver() },
			"checkpoint": func(*rapid.T) { w.ingress.checkpoint() },
			"break":      func(*rapid.T) { w.ingress.disconnect(); w.connected = false },
			"crash":      func(*rapid.T) { w.ingress.crash(); w.connected = false },
			"wait":       func(*rapid.T) { w.now = w.now.Add(10 * time.Millisecond) },
		}
		faults := []string{"break", "crash"}
		common := slices.DeleteFunc(slices.Sorted(maps.Keys(actions)), func(name string) bool { return slices.Contains(faults, name) })
		names := slices.Concat(faults, common, common, common)
		w.connect()
		for range rapid.IntRange(50, 200).Draw(t, "steps") {
			actions[rapid.SampledFrom(names).Draw(t, "action")](t)
			w.safe(t)
		}
		w.quiet(t)
		w.ingress.deliver()
		w.ingress.checkpoint()
		w.safe(t)
		require.Len(t, w.ingress.durable, len(w.made))
	})
}
