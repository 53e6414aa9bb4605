package server

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/server/store"
)

// history writes down what is asked and answered, and what sink and store are given, with the times
// between which each took effect.
type history struct {
	model       porcupine.Model
	mu          sync.Mutex
	begin       time.Time
	list        []porcupine.Operation
	connections map[string]int  // of each collector, so far
	answers     map[string]int  // how often each was given, by verb and code
	failing     map[string]bool // collectors whose last delivery was refused; of the one that delivers
}

func newHistory(model porcupine.Model) *history {
	return &history{model: model, begin: time.Now(), connections: map[string]int{}, answers: map[string]int{}, failing: map[string]bool{}}
}

// unknown is the return of an operation that may take effect at any time after its call.
const unknown = -1

func (h *history) now() int64 { return time.Since(h.begin).Nanoseconds() }

func (h *history) add(in asked, call int64, out outcome, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, porcupine.Operation{ClientId: in.from, Input: in, Call: call, Output: out, Return: returned})
	h.answers[in.verb+" "+out.code]++
}

// connection numbers the connections of a collector.
func (h *history) connection(collector string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connections[collector]++
	return h.connections[collector]
}

// over says that nothing of a connection that is not answered by now will take effect any more.
func (h *history) over(collector string, from int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for i := range h.list {
		in := h.list[i].Input.(asked)
		if h.list[i].Return == unknown && in.collector == collector && in.from == from {
			h.list[i].Return = now
		}
	}
}

// ended says that nothing that is not answered by now will take effect any more. What a connection that
// had the seat leaves open is over earlier, when the seat was given to the next one: that is no more than
// the contract says, and keeps the check short.
func (h *history) ended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.now()
	for i := range h.list {
		op := &h.list[i]
		if op.Return == unknown {
			op.Return = min(end, h.next(op.Input.(asked)))
		}
		op.Return = max(op.Return, op.Call)
	}
}

// next is when a later connection of the collector was told that it has the seat, in dialect 2 that no other has it; the
// lock is held.
func (h *history) next(in asked) int64 {
	seated := func(op porcupine.Operation) bool {
		other := op.Input.(asked)
		code := op.Output.(outcome).code
		return other.collector == in.collector && (other.verb == "AUTH" && code == "ACK" || other.verb == "HELLO" && code == "WELCOME")
	}
	own := slices.IndexFunc(h.list, func(op porcupine.Operation) bool {
		return op.Input.(asked).from == in.from && seated(op)
	})
	first := int64(1<<63 - 1)
	for _, op := range h.list {
		if own >= 0 && seated(op) && op.Call > h.list[own].Return {
			first = min(first, op.Return)
		}
	}
	return first
}

// linearTimeout bounds a check; one that does not finish is a failure.
const linearTimeout = 10 * time.Second

// judge tells whether the history is linearizable. When it is not it keeps a page that shows it, in the
// folder that HISTORY_DIR names or the one for temporary files.
func (h *history) judge() (result porcupine.CheckResult, page string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	result = porcupine.CheckOperationsTimeout(h.model, h.list, linearTimeout)
	if result == porcupine.Ok {
		return result, ""
	}
	_, info := porcupine.CheckOperationsVerbose(h.model, h.list, linearTimeout) // slower, so only now
	file, err := os.CreateTemp(os.Getenv("HISTORY_DIR"), "tidemark-history-*.html")
	if err != nil {
		return result, err.Error()
	}
	defer file.Close()
	if err := porcupine.Visualize(h.model, info, file); err != nil {
		return result, err.Error()
	}
	return result, file.Name()
}

// witnessSink writes down what becomes durable in the sink, and what becomes of deliveries.
type witnessSink struct {
	worldSink
	h *history
}

func (s witnessSink) Begin(ctx context.Context) (sink.Txn, error) {
	txn, err := s.worldSink.Begin(ctx)
	return &witnessTxn{txn.(*worldTxn), s.h}, err
}

type witnessTxn struct {
	*worldTxn
	h *history
}

func (t *witnessTxn) Write(ctx context.Context, d sink.Delivery) (int, error) {
	call := t.h.now()
	n, err := t.worldTxn.Write(ctx, d)
	if refused := n == 0 && errors.As(err, new(*sink.Refused)); refused {
		t.h.add(asked{collector: d.Collector, verb: "REFUSED"}, call, outcome{}, t.h.now())
		t.h.failing[d.Collector] = true
	} else if n > 0 && t.h.failing[d.Collector] {
		t.h.add(asked{collector: d.Collector, verb: "TAKEN"}, call, outcome{}, t.h.now())
		t.h.failing[d.Collector] = false
	}
	return n, err
}

func (t *witnessTxn) Commit(ctx context.Context) error {
	call := t.h.now()
	err := t.worldTxn.Commit(ctx)
	if err != nil {
		return err
	}
	for _, collector := range []string{"a", "b"} {
		if bodies := bodiesOf(collector, t.records); len(bodies) > 0 {
			t.h.add(asked{collector: collector, verb: "SINK", bodies: bodies}, call, outcome{}, t.h.now())
		}
	}
	return nil
}

// bodiesOf is what the records of a collector were sent as.
func bodiesOf(collector string, records []string) []string {
	bodies := []string{}
	for _, record := range records {
		if body, ok := strings.CutPrefix(record, collector+"/"); ok {
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// witnessStore writes down the watermarks that become durable.
type witnessStore struct {
	*world
	h *history
}

func (s witnessStore) Save(ctx context.Context, c *store.Checkpoint) error {
	call := s.h.now()
	err := s.world.Save(ctx, c)
	if err != nil {
		return err
	}
	for _, change := range c.Changes {
		watermark := s.image(change.Collector).Watermark
		s.h.add(asked{collector: change.Collector, verb: "STORE", id: watermark}, call, outcome{}, s.h.now())
	}
	return nil
}
