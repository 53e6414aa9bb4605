package server

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// Whatever clients do at the same time, over real connections and with a sink that is slow and fails,
// each collector's answers are those of one sequential contract (linearModel), and the sink has exactly
// what was accepted.

// linearRounds is how many histories one test makes.
const linearRounds = 12

func TestLinearizable(t *testing.T) {
	random := seeded(t)
	seen := map[string]int{}
	for round := range linearRounds {
		linearRound(t, round, random, seen)
	}
	for _, needed := range []string{
		"AUTH ACK", "AUTH REJECTED", "AUTH ", "BATCH RECEIVED", "BATCH QUEUE_FULL", "BATCH RETRY", "BATCH CONFLICT", "BATCH STALE",
		"BATCH ", "COMMIT ACK", "COMMIT RETRY", "COMMIT RESEND", "COMMIT PENDING", "SINK ", "STORE ", "REFUSED ", "TAKEN ", "write-timeout",
	} {
		require.Positive(t, seen[needed], "%q never came: %v", needed, seen)
	}
}

func linearRound(t *testing.T, round int, random *rand.Rand, seen map[string]int) {
	h, w, pace := newHistory(linearModel), newWorld(), newPace()
	w.gaps = true
	w.misbehave(rand.New(&sharedSource{pcg: rand.NewPCG(random.Uint64(), 0)}))
	pace.slow(w, rand.New(&sharedSource{pcg: rand.NewPCG(random.Uint64(), 0)}))
	ts := linearServer(t, round, w, h)
	agents := []*agent{}
	for _, collector := range []string{"a", "b"} {
		shared := &disk{variants: map[uint64]string{}}
		for i := range 3 {
			agents = append(agents, &agent{
				disk: shared, h: h, ts: ts, collector: collector, right: i < 2, beat: pace.beat,
				random: rand.New(rand.NewPCG(random.Uint64(), 0)),
			})
		}
	}
	var all sync.WaitGroup
	for _, a := range agents {
		all.Go(func() {
			for range 5 {
				a.connect()
				if a.random.IntN(3) == 0 {
					ts.Resume(a.collector)
				}
			}
		})
	}
	all.Wait()
	require.False(t, t.Failed())
	close(pace.over)
	w.set(func() { w.write, w.commit, w.save = nil, nil, nil })
	until(t, "all connections are over", func() bool { return len(ts.live()) == 0 })
	for _, i := range []int{0, 3} {
		agents[i].finish(w)
	}
	seen["write-timeout"] += int(ts.metric("tidemark_connections_refused_total", `reason="write-timeout"`))
	ts.kill()
	h.ended()
	for what, n := range h.answers {
		seen[what] += n
	}
	result, page := h.judge()
	require.Equal(t, porcupine.Ok, result, "%d operations are not linearizable, see %s", len(h.list), page)
}

// linearServer serves with small limits and small buffers.
func linearServer(t *testing.T, round int, w *world, h *history) *testServer {
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
		o.SeatWait = []time.Duration{time.Millisecond, 10 * time.Millisecond, patience}[round%3]
		o.WriteTimeout = []time.Duration{5 * time.Millisecond, patience}[round%2]
	})
}

// narrow is a listener whose connections take few replies that nobody reads.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return conn, err
}

// pace makes the sink as slow as the clients: it waits for answers that they get.
type pace struct {
	beats chan struct{}
	over  chan struct{}
}

func newPace() *pace {
	return &pace{make(chan struct{}, 1), make(chan struct{})}
}

func (p *pace) beat() { signal(p.beats) }

func (p *pace) wait(ctx context.Context, n int) {
	for range n {
		select {
		case <-p.beats:
		case <-p.over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// slow makes deliveries and commits wait.
func (p *pace) slow(w *world, random *rand.Rand) {
	write, commit := w.write, w.commit
	w.write = func(ctx context.Context, d sink.Delivery) (int, error) {
		p.wait(ctx, random.IntN(6))
		return write(ctx, d)
	}
	w.commit = func(ctx context.Context) error {
		p.wait(ctx, random.IntN(6))
		return commit(ctx)
	}
}
