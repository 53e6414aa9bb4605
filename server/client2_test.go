package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// client2 is a collector of dialect 2 that says exactly what the test says.
type client2 struct {
	t      *testing.T
	conn   net.Conn
	in     *bufio.Reader
	parser protocol.ReplyParser2
}

func (ts *testServer) dial2() *client2 {
	ts.t.Helper()
	c := ts.dial()
	return &client2{t: ts.t, conn: c.conn, in: bufio.NewReaderSize(c.conn, protocol.MaxJSON+10)}
}

// hello2 is what collector a says with its token.
func hello2(instance string, first, next uint64) *protocol.Hello {
	return &protocol.Hello{Collector: "a", Instance: instance, Token: "tok-A", First: first, Next: next}
}

// seat dials, says HELLO and READY, and yields what WELCOME told.
func (ts *testServer) seat(instance string, first, next uint64) (*client2, *protocol.Welcome) {
	ts.t.Helper()
	c := ts.dial2()
	w := c.welcomed(hello2(instance, first, next))
	c.write(protocol.AppendReady2(nil))
	return c, w
}

// ready waits until the connection has the seat: the answer to PING comes behind READY.
func (c *client2) ready() *client2 {
	c.t.Helper()
	c.write(protocol.AppendPing2(nil))
	c.expect("PONG")
	return c
}

func (c *client2) welcomed(h *protocol.Hello) *protocol.Welcome {
	c.t.Helper()
	c.write(protocol.AppendHello2(nil, h))
	r := c.next()
	require.Equal(c.t, protocol.CodeWelcome, r.Code, "%+v", r)
	return r.Welcome
}

// refused says HELLO and demands an ERROR.
func (ts *testServer) refused(h *protocol.Hello, reason string) {
	ts.t.Helper()
	c := ts.dial2()
	c.write(protocol.AppendHello2(nil, h))
	c.over(reason)
	c.conn.Close()
}

func (c *client2) write(b []byte) {
	c.t.Helper()
	_, err := c.conn.Write(b)
	require.NoError(c.t, err)
}

func (c *client2) say(text string) {
	c.t.Helper()
	c.write([]byte(text + "\r\n"))
}

// batch2 is a batch of one record.
func batch2(id uint64, record string) []byte {
	return protocol.AppendBatch2(nil, id, 1, protocol.AppendRecord(nil, []byte(record)))
}

// batches sends numbers first to last, each with its number as record.
func (c *client2) batches(first, last uint64) {
	c.t.Helper()
	var all []byte
	for id := first; id <= last; id++ {
		all = append(all, batch2(id, fmt.Sprint(id))...)
	}
	c.write(all)
}

// read is the next message.
func (c *client2) read() (r protocol.Reply2, err error) {
	for {
		buf, _ := c.in.Peek(c.in.Buffered())
		r, n, err := c.parser.Next(buf)
		c.in.Discard(n)
		if err != nil || r.Code != 0 {
			return r, err
		}
		if _, err := c.in.Peek(c.in.Buffered() + 1); err != nil {
			return r, err
		}
	}
}

func (c *client2) next() protocol.Reply2 {
	c.t.Helper()
	r, err := c.read()
	require.NoError(c.t, err)
	return r
}

// line is a message as it is written, without the text of NACK, ERROR and GOAWAY.
func line(r protocol.Reply2) string {
	r.Text = ""
	return strings.TrimSuffix(string(protocol.AppendReply2(nil, r)), "\r\n")
}

// expect demands these messages next.
func (c *client2) expect(lines ...string) {
	c.t.Helper()
	for _, want := range lines {
		require.Equal(c.t, want, line(c.next()))
	}
}

// acked reads until the watermark is this one: ACKs on the way may come or not. Nothing else may.
func (c *client2) acked(watermark uint64) {
	c.t.Helper()
	for last := uint64(0); last < watermark; {
		r := c.next()
		require.Equal(c.t, protocol.CodeAck, r.Code, line(r))
		require.Greater(c.t, r.Watermark, last, "a watermark never falls, and is told once")
		require.LessOrEqual(c.t, r.Watermark, watermark)
		last = r.Watermark
	}
}

// over demands ERROR for a reason, after ACKs perhaps, and then the end.
func (c *client2) over(reason string) {
	c.t.Helper()
	for {
		if r := c.next(); r.Code != protocol.CodeAck {
			require.Equal(c.t, "ERROR "+reason, line(r))
			break
		}
	}
	c.ended()
}

// ended demands the end of the connection and nothing before it.
func (c *client2) ended() {
	c.t.Helper()
	r, err := c.read()
	require.Error(c.t, err, line2(r))
	if !errors.Is(err, io.EOF) { // a reset would take the last words back
		require.ErrorIs(c.t, err, io.ErrClosedPipe)
	}
}

func line2(r protocol.Reply2) string {
	if r.Code == 0 {
		return ""
	}
	return line(r)
}

// silent demands that nothing has come so far.
func (c *client2) silent() {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	r, err := c.read()
	var timeout net.Error
	require.True(c.t, errors.As(err, &timeout) && timeout.Timeout(), "%s %v", line2(r), err)
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(patience)))
}
