package collector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

const (
	writeSize = 256 << 10              // requests gathered for one write
	readSize  = protocol.MaxJSON + 512 // more than the longest message of the ingress
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
	hello := c.core.connect(c.next)
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
		if err := c.prepare(conn); err != nil {
			return err
		}
		c.mu.Lock()
		waited := c.core.Waiting()
		buf = c.core.Send(buf[:0], time.Now(), writeSize)
		if !waited && len(buf) > 0 {
			c.expect(conn)
		}
		wake, timed := c.core.Wake()
		overdue := c.core.overdue()
		c.mu.Unlock()
		if overdue {
			return errAway
		}
		if len(buf) > 0 {
			continue
		}
		if err := c.pause(ctx, wake, timed); err != nil {
			return err
		}
	}
}

// prepare does what the disk has to do before more is sent: new numbers are stored, and what there is room for is read.
func (c *Client) prepare(conn net.Conn) error {
	c.mu.Lock()
	numbers, unstored := c.core.unstored()
	c.mu.Unlock()
	if unstored {
		if c.o.Journal != nil {
			if err := c.o.Journal.Number(numbers); full(err) {
				return err // and again with the next connection
			} else if err != nil {
				c.fail(err)
				return err
			}
		}
		c.mu.Lock()
		c.core.stored()
		c.expect(conn)
		c.welcomed()
		c.mu.Unlock()
	}
	if c.o.Journal == nil {
		return nil
	}
	for more := true; more; {
		var err error
		if more, err = c.load(); err != nil {
			c.fail(err)
			return err
		}
	}
	return nil
}

// load brings one more batch from the journal into memory, if there is room and one is there.
func (c *Client) load() (more bool, err error) {
	c.mu.Lock()
	roomy := c.core.roomy()
	c.mu.Unlock()
	if !roomy {
		return false, nil
	}
	id, b, ok, err := c.o.Journal.Read()
	if !ok || err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id <= c.core.Watermark() { // acknowledged meanwhile
		c.unread += uint64(b.Records)
		return true, nil
	}
	c.next = max(c.next, id+1) // its Send may not have returned
	return true, c.core.load(id, b)
}

// lastWords waits a moment for the reader: why the peer closed, if it said so, stands in what is still to be read.
func (c *Client) lastWords(ctx context.Context, err error) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
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

// expect bounds the time to the next message, if one is due; the caller holds mu, so that reader and writer agree.
func (c *Client) expect(conn net.Conn) {
	until := time.Time{}
	if d := c.core.patience(c.o.Timeout); d > 0 {
		until = time.Now().Add(d)
	}
	conn.SetReadDeadline(until)
}

// read takes what the ingress says until the connection ends. An end of it, however it looks, tells nothing of what was
// sent.
func (c *Client) read(conn net.Conn) error {
	buf := make([]byte, 0, readSize)
	for {
		n, err := conn.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		for bad, used := error(nil), 1; used > 0; {
			if used, bad = c.take(conn, buf); bad != nil && !c.skips(bad) {
				return bad
			}
			buf = buf[:copy(buf, buf[used:])]
			if bad == nil {
				break
			}
		}
		if err != nil {
			return err
		}
		if len(buf) == cap(buf) {
			return fmt.Errorf("%w: a message of more than %d bytes", ErrUnexpected, readSize)
		}
	}
}

// skips asks what to do with a batch that was refused for good, and gives it up if the answer is yes.
func (c *Client) skips(err error) bool {
	var refused *Refused
	if !errors.As(err, &refused) || refused.ID == 0 || c.o.Dialect == 1 || c.o.OnRefused == nil || !c.o.OnRefused(refused) {
		return false
	}
	c.o.Log.Error("a batch was refused for good and is given up", "batch", refused.Number, "records", refused.Batch.Records, "error", refused.Error())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.skip(refused.ID)
	signal(c.wake)
	return true
}

// take hands all whole messages to the core, up to the first error, and tells how many bytes they are.
func (c *Client) take(conn net.Conn, buf []byte) (used int, err error) {
	c.mu.Lock()
	before := c.core.Watermark()
	used, err = c.core.take(buf)
	watermark := c.core.Watermark()
	if used > 0 {
		c.expect(conn)
		c.welcomed()
	}
	c.mu.Unlock()
	signal(c.wake)
	if watermark > before {
		err = errors.Join(err, c.acknowledged(watermark))
	}
	return used, err
}

// acknowledged lets the disk forget, and tells who waits.
func (c *Client) acknowledged(watermark uint64) error {
	if c.o.Journal != nil {
		unread, err := c.o.Journal.Acknowledge(watermark)
		c.mu.Lock()
		c.unread += uint64(unread)
		c.mu.Unlock()
		if err != nil {
			c.fail(err)
			return err
		}
	}
	if c.o.OnAck != nil {
		c.o.OnAck(watermark)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announce()
	return nil
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
