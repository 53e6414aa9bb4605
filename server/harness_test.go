package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// testServer is a server in a world of its own, stopped at the end of the test.
type testServer struct {
	*Server
	t       *testing.T
	world   *world
	connect func() (net.Conn, error)
	address string
	served  chan error
}

// start serves on a loopback port.
func start(t *testing.T, w *world, change func(*Options)) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	return startOn(t, w, l, func() (net.Conn, error) { return net.Dial("tcp", address) }, change)
}

// startPipe serves on pipes, for tests in a bubble of testing/synctest.
func startPipe(t *testing.T, w *world, change func(*Options)) *testServer {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	return startOn(t, w, l, l.dial, change)
}

func startOn(t *testing.T, w *world, l net.Listener, connect func() (net.Conn, error), change func(*Options)) *testServer {
	t.Helper()
	s, err := New(t.Context(), options(w, change))
	require.NoError(t, err)
	ts := &testServer{s, t, w, connect, l.Addr().String(), make(chan error, 1)}
	go func() { ts.served <- s.Serve(l) }()
	t.Cleanup(func() {
		ts.kill()
		w.set(func() { require.Empty(t, w.faults) })
	})
	return ts
}

func options(w *world, change func(*Options)) Options {
	o := Options{
		Sink: worldSink{w}, Store: w, Auth: Tokens(map[string]string{"tok-A": "a", "tok-B": "b"}),
		Log: slog.New(slog.DiscardHandler), Backoff: Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond},
		SeatWait: patience, Jitter: func() float64 { return 0 },
	}
	if change != nil {
		change(&o)
	}
	return o
}

// limits are the defaults, changed.
func limits(change func(*statemachine.Limits)) func(*Options) {
	return func(o *Options) {
		o.Limits = statemachine.DefaultLimits()
		change(&o.Limits)
	}
}

// kill stops the server as a crash would: nothing more is delivered, stored or answered.
func (ts *testServer) kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ts.Shutdown(ctx)
}

// status is that of one collector.
func (ts *testServer) status(collector string) Status {
	ts.t.Helper()
	for _, st := range ts.Streams() {
		if st.Collector == collector {
			return st
		}
	}
	require.FailNow(ts.t, "no stream of "+collector)
	return Status{}
}

// released waits until no payload is accounted for: that follows the acknowledgement at once.
func (ts *testServer) released() {
	ts.t.Helper()
	until(ts.t, "all memory is released", func() bool { return ts.memory.Load() == 0 })
}

// client is a collector that says exactly what the test says.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// patience is how long a test waits for what must come; never for what must not.
const patience = 20 * time.Second

func (ts *testServer) dial() *client {
	ts.t.Helper()
	conn, err := ts.connect()
	require.NoError(ts.t, err)
	ts.t.Cleanup(func() { conn.Close() })
	if conn.LocalAddr().Network() == "tcp" { // in a bubble time flies, and waiting in vain is noticed
		conn.SetDeadline(time.Now().Add(patience))
	}
	return &client{ts.t, conn, bufio.NewReader(conn)}
}

// login dials and authenticates collector a.
func (ts *testServer) login() *client {
	ts.t.Helper()
	return ts.loginAs("tok-A")
}

func (ts *testServer) loginAs(token string) *client {
	ts.t.Helper()
	c := ts.dial()
	c.expect("__AUTH__:"+token, "ACK")
	return c
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	c.write(strings.Join(lines, "\n") + "\n")
}

func (c *client) write(text string) {
	c.t.Helper()
	_, err := c.conn.Write([]byte(text))
	require.NoError(c.t, err)
}

func (c *client) reply() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	return strings.TrimSuffix(line, "\n")
}

func (c *client) replies(n int) []string {
	c.t.Helper()
	list := make([]string, n)
	for i := range list {
		list[i] = c.reply()
	}
	return list
}

// expect sends one line and checks the reply.
func (c *client) expect(line, reply string) {
	c.t.Helper()
	c.send(line)
	require.Equal(c.t, reply, c.reply(), "reply to %.80q", line)
}

// insist sends one line again until it is RECEIVED.
func (c *client) insist(line string) {
	c.t.Helper()
	last := ""
	c.until(func() string { return fmt.Sprintf("%.80q is RECEIVED, not %s", line, last) }, func() bool {
		c.send(line)
		last = c.reply()
		return last == "RECEIVED"
	})
}

// batches sends numbers first to last, each with its number as payload, and demands RECEIVED.
func (c *client) batches(first, last int) {
	c.t.Helper()
	for id := first; id <= last; id++ {
		c.expect(fmt.Sprintf("__BATCH__:%d:%d", id, id), "RECEIVED")
	}
}

// eventually asks COMMIT until the reply is the one given.
func (c *client) eventually(id int, reply string) {
	c.t.Helper()
	last := ""
	c.until(func() string { return fmt.Sprintf("COMMIT %d is answered %s, not %s", id, reply, last) }, func() bool {
		c.send(fmt.Sprintf("__COMMIT__:%d", id))
		last = c.reply()
		return last == reply
	})
}

// silent checks that no reply has come so far. A deadline in the past would not even look.
func (c *client) silent() {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err := c.in.Peek(1)
	require.ErrorIs(c.t, err, os.ErrDeadlineExceeded)
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(patience)))
}

// closed checks that the server ends the connection, and says nothing more.
func (c *client) closed() {
	c.t.Helper()
	_, err := c.in.ReadByte()
	require.Error(c.t, err)
	var timeout net.Error
	require.False(c.t, errors.As(err, &timeout) && timeout.Timeout(), "the connection is still open")
}

func (c *client) until(what func() string, holds func() bool) {
	c.t.Helper()
	waitFor(c.t, what, holds)
}

// until waits for a condition, with a deadline.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	waitFor(t, func() string { return what }, holds)
}

func waitFor(t *testing.T, what func() string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(t, "waited in vain until "+what())
		}
	}
}

// records are what a collector's numbers first to last left in the sink, when sent by batches.
func records(collector string, first, last int) []string {
	list := []string{}
	for id := first; id <= last; id++ {
		list = append(list, fmt.Sprintf("%s/%d", collector, id))
	}
	return list
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipes) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// logged is a log that tests can search.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logger logs everything.
func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

// seeded is the randomness of a test, which says how to repeat it.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	n := *seed
	if n == 0 {
		n = rand.Uint64()
	}
	t.Logf("repeat with: go test ./server -run '^%s$' -seed %d", t.Name(), n)
	return rand.New(&sharedSource{pcg: rand.NewPCG(n, 0)})
}

// sharedSource may be used by the test and its world at once.
type sharedSource struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

func (s *sharedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

// scrape is the page of metrics.
func (ts *testServer) scrape() string {
	ts.t.Helper()
	response := httptest.NewRecorder()
	ts.Handler(false).ServeHTTP(response, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(ts.t, http.StatusOK, response.Code)
	return response.Body.String()
}

// metric is the sum of a metric's series that hold the label, as `name="value"`; all with "".
func (ts *testServer) metric(name, label string) float64 {
	ts.t.Helper()
	sum := 0.0
	for line := range strings.Lines(ts.scrape()) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if base, labels, _ := strings.Cut(series, "{"); base == name && strings.Contains(labels, label) {
			v, err := strconv.ParseFloat(value, 64)
			require.NoError(ts.t, err)
			sum += v
		}
	}
	return sum
}
