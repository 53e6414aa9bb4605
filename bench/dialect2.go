package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/tidemark/tidemark/protocol"
)

// dialect2Conn speaks dialect 2: a batch is one message, and the ingress says by itself what is acknowledged.
type dialect2Conn struct {
	net.Conn
	in    *bufio.Reader
	base  uint64 // records that were acknowledged when the connection began
	batch uint64

	writing      sync.Mutex
	out, payload []byte
}

// dialDialect2 connects and takes the seat. Nothing is said of batches before that.
func dialDialect2(ctx context.Context, address string, collector int, acknowledged uint64, s *Settings) (Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &dialect2Conn{Conn: conn, in: bufio.NewReaderSize(conn, protocol.MaxJSON), base: acknowledged, batch: uint64(s.Batch)}
	first := acknowledged/c.batch + 1
	c.out = protocol.AppendHello2(nil, &protocol.Hello{
		Collector: fmt.Sprintf("c%d", collector), Instance: "bench", Token: tokenOf(collector),
		First: first, Next: first + uint64(s.Window) + 1, // above all that may have been sent
	})
	if _, err = conn.Write(c.out); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	r, err := c.read()
	if err == nil && r.Code != protocol.CodeWelcome {
		err = fmt.Errorf("unexpected %v %v %s", r.Code, r.Reason, r.Text)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_, err = conn.Write(protocol.AppendReady2(nil))
	return c, err
}

func (c *dialect2Conn) Send(b *Batch) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.payload = c.payload[:0]
	for _, record := range b.Records {
		c.payload = protocol.AppendRecord(c.payload, record)
	}
	c.out = protocol.AppendBatch2(c.out[:0], (b.First-1)/c.batch+1, len(b.Records), c.payload)
	_, err := c.Write(c.out)
	return err
}

func (c *dialect2Conn) Acknowledged() (uint64, error) {
	for {
		r, err := c.read()
		if err != nil {
			return 0, err
		}
		switch r.Code {
		case protocol.CodeAck:
			return max(r.Watermark*c.batch, c.base) - c.base, nil
		case protocol.CodeWindow:
		case protocol.CodePing:
			if err := c.pong(); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("unexpected %v %v %s", r.Code, r.Reason, r.Text)
		}
	}
}

func (c *dialect2Conn) pong() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.Write(protocol.AppendPong2(nil))
	return err
}

// read is the next message; all that the ingress says is one line.
func (c *dialect2Conn) read() (protocol.Reply2, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return protocol.Reply2{}, err
	}
	var parser protocol.ReplyParser2
	r, _, err := parser.Next(line)
	return r, err
}
