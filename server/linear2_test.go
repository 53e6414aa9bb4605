//go:build linear2

package server

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// Whatever clients of dialect 2 do at the same time, over real connections and with a sink and a store that fail, one
// connection writes a stream: what each is told is that of one sequential contract (linearModel2), and the sink has
// exactly what was accepted.

// linearRounds2 is how many histories one test makes.
const linearRounds2 = 36

// TestLinearizable2 is behind the build tag linear2: now and then porcupine can't decide one of its histories within the limit.
func TestLinearizable2(t *testing.T) {
	random := seeded(t)
	seen := map[string]int{}
	for round := range linearRounds2 {
		linearRound2(t, round, random, seen)
	}
	for _, needed := range []string{
		"HELLO WELCOME", "HELLO REJECTED", "HELLO RETIRED", "HELLO ", "READY PASSED", "READY ", "FENCED ", "CLOSE ",
		"BATCH PASSED", "BATCH RESEND", "BATCH CONFLICT", "BATCH STALE", "BATCH DECODE_FAILED", "BATCH ", "SKIP PASSED", "ACKED ", "GOAWAY ",
		"SINK ", "STORE ", "REFUSED ", "TAKEN ", "missing", "lost", "write-timeout",
	} {
		require.Positive(t, seen[needed], "%q never came: %v", needed, seen)
	}
}

func linearRound2(t *testing.T, round int, random *rand.Rand, seen map[string]int) {
	h, w, pace := newHistory(linearModel2), newWorld(), newPace()
	w.gaps = true
	pause := &heldLog{Handler: slog.DiscardHandler}
	ts := linearServer2(t, round, w, h, pause)
	judged := false
	defer func() {
		if !judged { // a client waited in vain, perhaps since it was told something wrong
			ts.kill()
			h.ended()
			result, page := h.judge()
			t.Logf("the history so far is %s, see %s", result, page)
		}
	}()
	agents := []*agent2{}
	for _, collector := range []string{"a", "b"} {
		agents = append(agents, agentsOf2(h, ts, collector, pace.beat, random)...)
	}
	w.set(func() {
		w.write = func(_ context.Context, d sink.Delivery) (int, error) {
			return 0, &sink.Refused{Batch: d.Batches[0].ID, Err: errWorld}
		}
	})
	for _, i := range []int{0, 4} {
		agents[i].overtaken(pause)
	}
	w.set(func() {
		w.misbehave(rand.New(&sharedSource{pcg: rand.NewPCG(random.Uint64(), 0)}))
		pace.slow(w, rand.New(&sharedSource{pcg: rand.NewPCG(random.Uint64(), 0)}))
		w.anchor = slowly(w.save, rand.New(&sharedSource{pcg: rand.NewPCG(random.Uint64(), 0)}))
	})
	var all sync.WaitGroup
	for _, a := range agents {
		all.Go(func() {
			for range 3 {
				a.connect()
				if a.random.IntN(3) == 0 {
					_ = ts.Resume(a.collector)
				}
			}
		})
	}
	all.Wait()
	require.False(t, t.Failed())
	close(pace.over)
	w.set(func() { w.write, w.commit, w.save, w.anchor = nil, nil, nil, nil })
	until(t, "all connections are over", func() bool { return len(ts.live()) == 0 })
	for _, i := range []int{0, 4} {
		agents[i].finish(w)
	}
	seen["write-timeout"] += int(ts.metric("tidemark_connections_refused_total", `reason="write-timeout"`))
	ts.kill()
	h.ended()
	foretell(h)
	count2(h, seen)
	judged = true
	result, page := h.judge()
	require.Equal(t, porcupine.Ok, result, "%d operations are not linearizable, see %s", len(h.list), page)
}

// slowly makes the store take its time, in which a newer connection may come.
func slowly(save func(context.Context) error, random *rand.Rand) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(time.Duration(random.IntN(2000)) * time.Microsecond):
			return save(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// agentsOf2 are two right clients and a wrong one of one instance, and one of another instance.
func agentsOf2(h *history, ts *testServer, collector string, beat func(), random *rand.Rand) []*agent2 {
	shared := &buffer{name: "x", taken: map[uint64]bool{}}
	list := []*agent2{}
	for i := range 4 {
		a := &agent2{buffer: shared, agent: agent{
			h: h, ts: ts, collector: collector, right: i != 2, beat: beat, random: rand.New(rand.NewPCG(random.Uint64(), 0)),
		}}
		if i == 3 {
			a.buffer = &buffer{name: "y", taken: map[uint64]bool{}}
		}
		list = append(list, a)
	}
	return list
}

// foretell notes with each batch where it is in the sink in the end.
func foretell(h *history) {
	places := map[string]int{}
	for _, op := range h.list {
		if in := op.Input.(asked); in.verb == "CONTENT" {
			for i, body := range in.bodies {
				places[in.collector+body] = i + 1
			}
		}
	}
	for i, op := range h.list {
		if in := op.Input.(asked); in.verb == "BATCH" {
			if in.place = places[in.collector+in.body]; in.place == 0 {
				in.place = -1
			}
			h.list[i].Input = in
		}
	}
}

func count2(h *history, seen map[string]int) {
	for what, n := range h.answers {
		seen[what] += n
	}
	for _, op := range h.list {
		if w := op.Output.(outcome).welcome; w != nil {
			seen["missing"] += len(w.Missing)
			seen["lost"] += len(w.Lost)
		}
	}
}

// linearServer2 serves with small limits and small buffers.
func linearServer2(t *testing.T, round int, w *world, h *history, log slog.Handler) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	connect := func() (net.Conn, error) { return net.Dial("tcp", address) }
	return startOn(t, w, narrow{l}, connect, func(o *Options) {
		o.Sink, o.Store = witnessSink{worldSink{w}, h}, witnessStore{w, h}
		o.Limits = statemachine.DefaultLimits()
		o.Limits.QueueCapacity, o.Limits.Ahead, o.Limits.History, o.Limits.MaxNacks = linearCapacity, linearWindow, linearWindow, linearNacks
		o.Backoff = Backoff{time.Microsecond, time.Millisecond}
		o.RetryAfter = time.Millisecond
		o.WriteTimeout = []time.Duration{5 * time.Millisecond, patience}[round%2]
		o.Log = slog.New(log)
	})
}

// heldLog is a log that holds up who refuses a batch for good, while a test wants that.
type heldLog struct {
	slog.Handler
	gate atomic.Pointer[blocked]
}

func (p *heldLog) Enabled(context.Context, slog.Level) bool { return true }

func (p *heldLog) Handle(ctx context.Context, r slog.Record) error {
	if b := p.gate.Load(); b != nil && r.Message == "batch refused for good" {
		return b.wait(ctx)
	}
	return nil
}

// overtaken is a connection that is taken over while the server works on what it has read of it: a batch behind one that
// is refused for good. The next one has no room, since the sink refuses everything.
func (a *agent2) overtaken(pause *heldLog) {
	b := block()
	pause.gate.Store(b)
	defer pause.gate.Store(nil)
	defer b.open()
	c, d := a.dial(), a.dial()
	defer func() { c.end(); d.end() }()
	for !a.sit(c) { // writing took too long
		c.end()
		c = a.dial()
	}
	c.ask(batchOf2(1, "late!"), batchOf2(2, "late"), pingOf2())
	until(c.t, "a batch is refused for good", func() bool { return len(b.entered) > 0 })
	welcomed := a.ask(d, a.says())
	b.open()
	c.listen()
	if welcomed && a.ask(d, readyOf2(), pingOf2()) && a.ask(d, a.batch(d, d.told+1), pingOf2()) {
		until(d.t, "the stream is halted", func() bool { return a.ts.status(a.collector).Halted })
		a.work(d)
	}
	require.NoError(a.ts.t, a.ts.Resume(a.collector))
}
