package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/collector"
	"github.com/tidemark/tidemark/internal/daemon"
)

// load is the collectors of a run and the server they send to.
type load struct {
	run     *run
	dir     string
	random  *rand.Rand
	address atomic.Value // string: where the server of now listens
	relay   *relay       // to that server, for collectors that are processes
	stop    chan struct{}
	agents  []*agent
}

// agent is one collector; its records are 1 to made.
type agent struct {
	load         *load
	index        int
	made, acked  atomic.Uint64
	kills        atomic.Int64 // of its process
	conversation func(context.Context) error
}

func newLoad(r *run, dir string) *load {
	l := &load{run: r, dir: dir, random: rand.New(rand.NewPCG(r.seed, 0)), stop: make(chan struct{})}
	l.address.Store("")
	for i := range r.collectors {
		a := &agent{load: l, index: i}
		switch {
		case r.forget:
			a.conversation = a.forget
		case r.both:
			a.conversation = a.supervise
		default:
			a.conversation = a.keep
		}
		l.agents = append(l.agents, a)
	}
	return l
}

func (l *load) output() string { return filepath.Join(l.dir, "out.log") }

func (l *load) kills() (n int64) {
	for _, a := range l.agents {
		n += a.kills.Load()
	}
	return n
}

func (l *load) records() (n uint64) {
	for _, a := range l.agents {
		n += a.made.Load()
	}
	return n
}

func (l *load) acknowledged() (n uint64) {
	for _, a := range l.agents {
		n += a.acked.Load()
	}
	return n
}

// crash runs all rounds, and then lets everything be acknowledged and the server stop.
func (l *load) crash(ctx context.Context, programs string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	relay, err := newRelay(func() string { return l.address.Load().(string) })
	if err != nil {
		return err
	}
	defer relay.Close()
	l.relay = relay
	var agents sync.WaitGroup
	failed := make(chan error, len(l.agents))
	for _, a := range l.agents {
		agents.Go(func() { failed <- a.conversation(ctx) })
	}
	defer agents.Wait()
	defer cancel()
	for range l.run.rounds {
		if err := l.round(ctx, programs); err != nil {
			return err
		}
	}
	server, err := l.start(programs)
	if err != nil {
		return err
	}
	defer server.Kill()
	close(l.stop)
	for range l.agents {
		if err := <-failed; err != nil {
			return fmt.Errorf("%w\n%s", err, server.Log())
		}
	}
	return server.Stop()
}

// round starts the server and kills it at a random instant.
func (l *load) round(ctx context.Context, programs string) error {
	const mean, shortest, longest = 60 * time.Millisecond, 5 * time.Millisecond, 300 * time.Millisecond
	server, err := l.start(programs)
	if err != nil {
		return err
	}
	defer server.Kill()
	life := min(shortest+time.Duration(l.random.ExpFloat64()*float64(mean)), longest)
	select {
	case <-time.After(life):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start runs the server with options that differ from round to round.
func (l *load) start(programs string) (*daemon.Process, error) {
	args := []string{
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--data-dir", filepath.Join(l.dir, "data"), "--sink", "file:" + l.output(),
		"--retry-after", "5ms",
		"--snapshot", pick(l.random, "light", "full"),
		"--checkpoint-interval", pick(l.random, "0s", "0s", "5ms", "20ms"),
		"--queue-capacity", pick(l.random, "1024", "300"),
	}
	if l.run.forget {
		args = append(args, "--received", "durable")
	}
	for _, a := range l.agents {
		args = append(args, "--token", a.name()+"="+a.token())
	}
	p, err := daemon.Start(programs, args...)
	if err == nil {
		l.address.Store(p.Address)
	}
	return p, err
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func (a *agent) name() string   { return "c" + strconv.Itoa(a.index) }
func (a *agent) token() string  { return "token-of-" + a.name() }
func (a *agent) buffer() string { return filepath.Join(a.load.dir, "buffer-"+a.name()) }

// dial goes to the server of now.
func (a *agent) dial(ctx context.Context) (net.Conn, error) {
	address := a.load.address.Load().(string)
	if address == "" {
		return nil, errors.New("the server was never started")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// keep sends records with the collector of this module, until the run stops, and waits for all acknowledgements.
func (a *agent) keep(ctx context.Context) error {
	client, err := collector.Dial(ctx, collector.Options{
		Collector: a.name(), Dialect: a.load.run.dialect, Token: a.token(), Dial: a.dial, Window: 1 + a.index*300%1024, Timeout: 10 * time.Second,
		Backoff: collector.Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	for !a.stopped(ctx) {
		var records [][]byte
		for range 1 + a.made.Load()%100 {
			records = append(records, a.record(a.made.Load()+uint64(len(records))+1))
		}
		if _, err := client.Send(ctx, records...); err != nil {
			return err
		}
		a.made.Add(uint64(len(records)))
	}
	err = client.Flush(ctx)
	a.acked.Store(client.Status().Acknowledged)
	return err
}

func (a *agent) stopped(ctx context.Context) bool {
	select {
	case <-a.load.stop:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// record is the n-th record of this agent: its name, its number, and bytes that depend on both and on the seed.
func (a *agent) record(n uint64) []byte {
	r := rand.New(rand.NewPCG(a.load.run.seed+uint64(a.index), n))
	size := r.IntN(300)
	if r.IntN(1000) == 0 {
		size = r.IntN(100_000)
	}
	text := fmt.Appendf(nil, "%s %d ", a.name(), n)
	for range size {
		b := byte(r.Uint32())
		if b == '\n' {
			b = '\r'
		}
		text = append(text, b)
	}
	return text
}
