package collector

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is an ingress that says what a test says: each connection that a client dials is handed out.
type peer struct {
	t     *testing.T
	conns chan *side
}

// side is the ingress's end of one connection.
type side struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	last string // number of the last batch
}

func newPeer(t *testing.T) *peer { return &peer{t, make(chan *side, 100)} }

// dial is for Options.Dial, with pipes instead of sockets: it can be used with fake time.
func (p *peer) dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- &side{t: p.t, conn: theirs, in: bufio.NewReader(theirs)}
	return ours, nil
}

// listen hands out the connections of a real port, and yields its address.
func (p *peer) listen() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	p.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.conns <- &side{t: p.t, conn: conn, in: bufio.NewReader(conn)}
		}
	}()
	return l.Addr().String()
}

// next is the next connection, after it was let in.
func (p *peer) next() *side {
	s := <-p.conns
	s.expect("__AUTH__:token")
	s.say("ACK")
	return s
}

func (s *side) expect(lines ...string) {
	s.t.Helper()
	for _, want := range lines {
		require.Equal(s.t, want, s.line())
	}
}

// line is the next request without its CRLF; empty at the end of the connection.
func (s *side) line() string {
	line, err := s.in.ReadString('\n')
	if err != nil {
		return ""
	}
	if batch, ok := strings.CutPrefix(line, "__BATCH__:"); ok {
		s.last, _, _ = strings.Cut(batch, ":")
	}
	return strings.TrimSuffix(line, "\r\n")
}

func (s *side) say(lines ...string) {
	s.t.Helper()
	_, err := s.conn.Write([]byte(strings.Join(lines, "\n") + "\n"))
	require.NoError(s.t, err)
}

// serve answers everything as an ingress would that takes all, until the connection ends.
func (s *side) serve() {
	for line := s.line(); line != ""; line = s.line() {
		reply := "RECEIVED\n"
		if strings.HasPrefix(line, "__COMMIT__:") {
			reply = "ACK:" + s.last + "\n"
		}
		if _, err := s.conn.Write([]byte(reply)); err != nil {
			return
		}
	}
}
