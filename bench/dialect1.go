package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// askAgain is the time from a PENDING to the next COMMIT, when no batch is sent meanwhile that could carry it.
const askAgain = 500 * time.Microsecond

// dialect1Conn speaks dialect 1: each record is a BATCH line with its own number, a batch is a run of them in one
// write, and COMMIT asks for the end of the oldest batch that is not acknowledged.
type dialect1Conn struct {
	net.Conn
	in    *bufio.Reader
	base  uint64 // the watermark when the connection began
	batch uint64

	writing sync.Mutex // held over a write, so that what is gathered goes out in order
	out     []byte

	mu     sync.Mutex // never held over I/O: an acknowledgement does not wait for a batch to be written
	sent   uint64     // highest number sent
	acked  uint64     // watermark
	asking bool       // a COMMIT is unanswered
}

func dialDialect1(ctx context.Context, address, token string, acknowledged, batch uint64) (Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &dialect1Conn{
		Conn: conn, in: bufio.NewReaderSize(conn, 64<<10), batch: batch,
		base: acknowledged, sent: acknowledged, acked: acknowledged,
	}
	_, err = conn.Write(protocol.AppendAuth(nil, token))
	return c, err
}

func (c *dialect1Conn) Send(b *Batch) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	for i, record := range b.Records {
		c.out = protocol.AppendBatch(c.out, b.First+uint64(i), record)
	}
	c.mu.Lock()
	c.sent = b.First + uint64(len(b.Records)) - 1
	c.mu.Unlock()
	return c.flush()
}

// flush writes what is gathered, with a question if none is on its way; the caller holds writing.
func (c *dialect1Conn) flush() error {
	c.mu.Lock()
	if !c.asking && c.sent > c.acked {
		c.out = protocol.AppendCommit(c.out, c.base+((c.acked-c.base)/c.batch+1)*c.batch)
		c.asking = true
	}
	c.mu.Unlock()
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.Write(c.out)
	c.out = c.out[:0]
	return err
}

func (c *dialect1Conn) Acknowledged() (uint64, error) {
	received := []byte("RECEIVED\n")
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if bytes.Equal(line, received) {
			continue
		}
		r, err := protocol.ParseReply(line)
		if err != nil {
			return 0, err
		}
		switch {
		case r.Code == protocol.CodePending:
			time.AfterFunc(askAgain, c.ask)
		case r.Code == protocol.CodeAck && r.Watermark == 0: // of the AUTH
		case r.Code == protocol.CodeAck:
			return c.take(r.Watermark), nil
		default:
			return 0, fmt.Errorf("unexpected reply %q", line)
		}
	}
}

// take moves the watermark, and asks on.
func (c *dialect1Conn) take(watermark uint64) uint64 {
	c.mu.Lock()
	c.acked = watermark
	c.mu.Unlock()
	go c.ask()
	return watermark - c.base
}

// ask puts the next question. An error of the connection shows up where it is read.
func (c *dialect1Conn) ask() {
	c.mu.Lock()
	c.asking = false
	c.mu.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	c.flush()
}
