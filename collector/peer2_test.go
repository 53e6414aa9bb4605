package collector

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// peer2 is an ingress of dialect 2 that says what a test says: each connection that a client dials is handed out.
type peer2 struct {
	t     *testing.T
	conns chan *side2
}

// side2 is the ingress's end of one connection.
type side2 struct {
	t        *testing.T
	conn     net.Conn
	parser   protocol.Parser2
	buf      []byte
	instance string // of HELLO
	last     uint64 // number of the last batch
}

func newPeer2(t *testing.T) *peer2 { return &peer2{t, make(chan *side2, 100)} }

func (p *peer2) side(conn net.Conn) *side2 { return &side2{t: p.t, conn: conn} }

// pipe is for Options.Dial, with pipes instead of sockets: it can be used with fake time.
func (p *peer2) pipe(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- p.side(theirs)
	return ours, nil
}

// listen hands out the connections of a real port, and yields its address.
func (p *peer2) listen() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	p.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.conns <- p.side(conn)
		}
	}()
	return l.Addr().String()
}

// options are those of a client of this peer over TCP; no jitter.
func (p *peer2) options() Options {
	return Options{
		Address: p.listen(), Collector: "edge", Token: "token", Jitter: func() float64 { return 0 },
		Backoff: Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
	}
}

// piped are those over pipes.
func (p *peer2) piped() Options {
	o := Options{Collector: "edge", Token: "token", Jitter: func() float64 { return 0 }, Dial: p.pipe}
	return o
}

// next is the next connection, after its HELLO.
func (p *peer2) next(hello string) *side2 {
	p.t.Helper()
	s := <-p.conns
	p.t.Cleanup(func() { s.conn.Close() })
	s.expect(hello)
	return s
}

// ready is the next connection, after it was let in.
func (p *peer2) ready(hello string, w *protocol.Welcome) *side2 {
	p.t.Helper()
	s := p.next(hello)
	s.welcome(w)
	s.expect("READY")
	return s
}

// request is the next one; its Command is 0 at the end of the connection.
func (s *side2) request() protocol.Request2 {
	for {
		req, n, err := s.parser.Next(s.buf)
		require.NoError(s.t, err)
		s.buf = s.buf[n:]
		if req.Command != 0 {
			if req.Command == protocol.CommandHello {
				s.instance = req.Hello.Instance
				require.Equal(s.t, "edge token", req.Hello.Collector+" "+req.Hello.Token)
			}
			s.last = max(s.last, req.ID)
			return req
		}
		more := make([]byte, 64<<10)
		n, err = s.conn.Read(more)
		s.buf = append(s.buf[:len(s.buf):len(s.buf)], more[:n]...)
		if err != nil {
			return protocol.Request2{}
		}
	}
}

func (s *side2) expect(words ...string) {
	s.t.Helper()
	for _, want := range words {
		require.Equal(s.t, want, word(s.request()))
	}
}

func word(req protocol.Request2) string {
	switch req.Command {
	case 0:
		return "the end"
	case protocol.CommandHello:
		return fmt.Sprintf("HELLO(%d,%d)", req.Hello.First, req.Hello.Next)
	case protocol.CommandBatch:
		return fmt.Sprint(req.ID, ":", textOf(Batch{req.Records, req.Payload}))
	case protocol.CommandSkip:
		return fmt.Sprint("SKIP:", req.ID)
	}
	return req.Command.String()
}

// say sends messages as they stand on the wire.
func (s *side2) say(lines ...string) {
	s.t.Helper()
	_, err := io.WriteString(s.conn, strings.Join(lines, "\r\n")+"\r\n")
	require.NoError(s.t, err)
}

func (s *side2) welcome(w *protocol.Welcome) {
	s.t.Helper()
	_, err := s.conn.Write(protocol.AppendReply2(nil, protocol.Reply2{Code: protocol.CodeWelcome, Welcome: w}))
	require.NoError(s.t, err)
}

// serve acknowledges everything, until the connection ends.
func (s *side2) serve() {
	for {
		reply := ""
		switch req := s.request(); req.Command {
		case 0:
			return
		case protocol.CommandBatch:
			reply = fmt.Sprint("ACK ", req.ID, "\r\n")
		case protocol.CommandPing:
			reply = "PONG\r\n"
		case protocol.CommandBye:
			reply = "BYE\r\n"
		}
		if _, err := io.WriteString(s.conn, reply); err != nil {
			return
		}
	}
}
