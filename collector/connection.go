package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

const (
	writeSize = 256 << 10 // requests gathered for one write
	readSize  = 32 << 10
)

// converse lives as long as one connection. It tells why the connection ended; all that is held must be sent again.
func (c *Client) converse(parent context.Context) error {
	conn, err := c.o.Dial(parent)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	c.mu.Lock()
	hello := c.core.Connect(nil, c.o.Token)
	c.expect(conn)
	c.mu.Unlock()
	read := make(chan struct{})
	go func() {
		defer close(read)
		cancel(c.read(conn))
	}()
	cancel(c.write(ctx, conn, hello))
	<-read
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected = false
	return context.Cause(ctx)
}

// write sends what the core says, as it says so.
func (c *Client) write(ctx context.Context, conn net.Conn, buf []byte) error {
	for {
		if len(buf) > 0 {
			conn.SetWriteDeadline(time.Now().Add(c.o.Timeout))
			if _, err := conn.Write(buf); err != nil {
				return c.lastWords(ctx, err)
			}
		}
		if cap(buf) > 2*writeSize {
			buf = nil
		}
		c.mu.Lock()
		waited := c.core.Waiting()
		buf = c.core.Send(buf[:0], time.Now(), writeSize)
		if !waited && len(buf) > 0 {
			c.expect(conn)
		}
		wake, timed := c.core.Wake()
		c.mu.Unlock()
		if len(buf) > 0 {
			continue
		}
		if err := c.pause(ctx, wake, timed); err != nil {
			return err
		}
	}
}

// lastWords waits a moment for the reader: why the peer closed, if it said so, stands in what is still to be read.
func (c *Client) lastWords(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Second):
		return err
	}
}

// pause waits until there may be something to write.
func (c *Client) pause(ctx context.Context, wake time.Time, timed bool) error {
	var due <-chan time.Time
	if timed {
		timer := time.NewTimer(time.Until(wake))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-c.wake:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// expect bounds the time to the next reply, if one is due; the caller holds mu, so that reader and writer agree.
func (c *Client) expect(conn net.Conn) {
	until := time.Time{}
	if c.core.Waiting() {
		until = time.Now().Add(c.o.Timeout)
	}
	conn.SetReadDeadline(until)
}

// read takes replies until the connection ends. An end of it, however it looks, tells nothing of what was sent.
func (c *Client) read(conn net.Conn) error {
	buf := make([]byte, 0, readSize)
	for {
		n, err := conn.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		used, bad := c.take(conn, buf)
		if bad != nil {
			return bad
		}
		if err != nil {
			return err
		}
		buf = buf[:copy(buf, buf[used:])]
		if len(buf) == cap(buf) {
			return fmt.Errorf("%w: a line of more than %d bytes", ErrUnexpected, readSize)
		}
	}
}

// take hands all whole lines to the core, and tells how many bytes they are.
func (c *Client) take(conn net.Conn, buf []byte) (used int, err error) {
	c.mu.Lock()
	before := c.core.Watermark()
	for err == nil {
		end := bytes.IndexByte(buf[used:], '\n')
		if end < 0 {
			break
		}
		var r protocol.Reply
		if r, err = protocol.ParseReply(buf[used : used+end]); err == nil {
			err = c.core.TakeReply(r, time.Now())
		}
		used += end + 1
	}
	watermark := c.core.Watermark()
	if used > 0 {
		c.expect(conn)
		c.welcomed()
	}
	c.mu.Unlock()
	signal(c.wake)
	if watermark == before {
		return used, err
	}
	if c.o.Journal != nil {
		if bad := c.o.Journal.Acknowledge(watermark); bad != nil {
			c.fail(bad)
			return used, errors.Join(err, bad)
		}
	}
	c.mu.Lock()
	c.announce()
	c.mu.Unlock()
	return used, err
}

// welcomed counts the connection once it is a conversation; the caller holds mu.
func (c *Client) welcomed() {
	if !c.connected && c.core.Open() {
		c.connected = true
		if c.met {
			c.reconnects++
		}
		c.met = true
	}
}
