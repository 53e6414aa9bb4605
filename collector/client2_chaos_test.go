package collector

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

// modelServer is the model of an ingress on a real port. It takes one connection at a time; a newer one ends the older.
type modelServer struct {
	mu     sync.Mutex
	s      *ingress2
	conn   net.Conn
	random *rand.Rand
	reads  int
	broken int // connections, or all of it
}

func (m *modelServer) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		m.drop()
		m.conn = conn
		m.mu.Unlock()
		go m.serve(conn)
	}
}

// drop ends the connection; the caller holds mu.
func (m *modelServer) drop() {
	if m.conn != nil {
		m.conn.Close()
		m.conn = nil
	}
	m.s.disconnect()
}

func (m *modelServer) serve(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		m.mu.Lock()
		if err != nil || m.conn != conn {
			m.mu.Unlock()
			return
		}
		m.s.wire = append(m.s.wire, buf[:n]...)
		for before := -1; before != len(m.s.wire); {
			before = len(m.s.wire)
			m.s.deny = m.random.IntN(50) == 0
			m.s.serve()
		}
		m.s.deliver()
		m.s.checkpoint()
		m.s.push()
		m.trouble()
		var out []byte
		for _, r := range m.s.replies2 {
			out = protocol.AppendReply2(out, r)
		}
		m.s.replies2 = nil
		m.mu.Unlock()
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// trouble breaks the connection now and then, or lets the ingress crash, at least once; the caller holds mu.
func (m *modelServer) trouble() {
	m.reads++
	what := m.random.IntN(30)
	if m.reads == 10 {
		what = 1
	}
	switch what {
	case 0:
		m.drop()
	case 1:
		m.s.crash()
		m.drop()
	default:
		return
	}
	m.broken++
}

// Many goroutines send, the process starts anew on its disk several times, and the ingress has all kinds of trouble: each
// record that Send returned for is there once.
func TestClient2Chaos(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TIDEMARK_TEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: TIDEMARK_TEST_SEED=%d go test -race -run TestClient2Chaos ./collector", seed)
		}
	})
	limits := statemachine.DefaultLimits()
	m := &modelServer{s: &ingress2{ingress: &ingress{limits: limits}, instance: "none"}, random: rand.New(rand.NewPCG(seed, 0))}
	m.s.stream = statemachine.New(&m.s.limits)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var accepting sync.WaitGroup
	accepting.Go(func() { m.accept(l) })
	defer accepting.Wait()
	defer func() {
		l.Close()
		m.mu.Lock()
		m.drop()
		m.mu.Unlock()
	}()
	dir := t.TempDir()
	const lives, senders, calls = 4, 4, 25
	for life := range lives {
		c := startClient(t, Options{
			Address: l.Addr().String(), Collector: "edge", Token: "token", Window: 16,
			Journal: openSmall(t, dir, JournalOptions{SegmentBytes: 3000, MaxBytes: 20_000}),
			Backoff: Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond},
		})
		sends(t, c, life, senders, calls)
		if life == lives-1 {
			require.NoError(t, c.Flush(t.Context()))
		}
		require.NoError(t, c.Close())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Positive(t, m.broken)
	next := map[string]int{}
	for _, payload := range m.s.durable {
		for record, err := range protocol.Records([]byte(payload)) {
			require.NoError(t, err)
			sender, number, _ := strings.Cut(string(record), ":")
			n, _, _ := strings.Cut(number, " ")
			require.Equal(t, fmt.Sprint(next[sender]), n, "of sender %s, in order and once", sender)
			next[sender]++
		}
	}
	require.Len(t, next, lives*senders)
	for sender, n := range next {
		require.Equal(t, calls*3, n, sender)
	}
}

// sends lets many goroutines send three records a call.
func sends(t *testing.T, c *Client, life, senders, calls int) {
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for call := range calls {
				var records [][]byte
				for i := range 3 {
					records = append(records, fmt.Appendf(nil, "%d/%d:%d %s", life, sender, call*3+i, strings.Repeat("x", call*5)))
				}
				id, err := c.Send(t.Context(), records...)
				if err == nil && call%7 == 3 {
					err = c.Wait(t.Context(), id)
				}
				if err != nil {
					t.Errorf("life %d sender %d call %d: %v", life, sender, call, err)
					return
				}
			}
		})
	}
	all.Wait()
}
