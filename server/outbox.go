package server

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// maxHeld bounds the replies that wait behind a RECEIVED held back; a peer that goes on asking is
// not read from meanwhile.
const maxHeld = 8192

// outbox is a connection's replies, in order. A reply can be held until the watermark covers its
// batch; then all behind it wait too. One write at a time takes what is there, so that their order is
// that of the replies; a peer that does not read holds up only who writes.
type outbox struct {
	conn     net.Conn
	timeout  atomic.Int64 // of a write, in nanoseconds
	counters *counters
	late     func()        // called when the peer did not read in time
	came     chan struct{} // signals that something was held, or finish
	passed   chan struct{} // signals that something was let go

	writing chan struct{} // holds one token while the socket is written to
	spare   []byte        // what the last write wrote, to be used again

	mu     sync.Mutex // never held during I/O
	buf    []byte
	held   []held    // the first one is held back, the others wait behind it or are held back too
	pushed push      // dialect 2: what is appended when the next write begins
	kicked bool      // a flush is on its way
	last   bool      // dialect 2: the last message was said
	spoke  time.Time // when the last write began
	ending bool      // the server stops: nothing more is read
	closed bool      // no reply will be added: the holder may go when held is empty
	err    error
}

// held is a reply that waits. With until set it is a RECEIVED that must not be sent before batch id
// is covered, or becomes QUEUE_FULL.
type held struct {
	reply protocol.Reply
	batch uint64
	until time.Time
}

// add puts a reply behind the others; it is sent with the next flush unless it has to wait.
func (o *outbox) add(r protocol.Reply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.held) > 0 {
		o.held = append(o.held, held{reply: r})
		return
	}
	o.append(r)
}

// hold adds a RECEIVED that waits for the watermark to cover its batch.
func (o *outbox) hold(batch uint64, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = append(o.held, held{protocol.Reply{Code: protocol.CodeReceived}, batch, until})
	signal(o.came)
}

func (o *outbox) append(r protocol.Reply) {
	o.counters.reply[r.Code].Inc()
	o.buf = protocol.AppendReply(o.buf, r)
}

// signal wakes the one who waits, now or later.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// flush sends what does not have to wait.
func (o *outbox) flush() error {
	o.writing <- struct{}{}
	defer func() { <-o.writing }()
	o.mu.Lock()
	o.kicked = false
	o.appendPushed()
	out, err := o.buf, o.err
	o.buf = o.spare[:0]
	if len(out) > 0 {
		o.spoke = time.Now()
	}
	o.mu.Unlock()
	o.spare = out
	if len(out) == 0 || err != nil {
		return err
	}
	o.conn.SetWriteDeadline(time.Now().Add(time.Duration(o.timeout.Load())))
	if _, err = o.conn.Write(out); err != nil {
		o.mu.Lock()
		o.err = err
		o.mu.Unlock()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.late()
		}
	}
	if cap(out) > retainRead {
		o.spare = nil
	}
	return err
}

// hurry says that the server stops: a peer that does not read is given up soon.
func (o *outbox) hurry() {
	o.timeout.Store(int64(hurryTime))
	o.conn.SetWriteDeadline(time.Now().Add(hurryTime))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ending = true
	signal(o.passed)
}

const hurryTime = time.Second

// again tells whether a later RECEIVED for the first held batch is held, too.
func (o *outbox) again() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.held[0].batch
	return slices.ContainsFunc(o.held[1:], func(h held) bool { return h.batch == first })
}

// uncrowd waits until few enough replies are held.
func (o *outbox) uncrowd(ctx context.Context) error {
	for {
		o.mu.Lock()
		crowded, ending := len(o.held) >= maxHeld, o.ending
		o.mu.Unlock()
		if ending {
			return errBye
		}
		if !crowded {
			return nil
		}
		select {
		case <-o.passed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finish says that no reply comes any more.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	signal(o.came)
}

// next is the first reply that is held back, if any, and whether there will be another.
func (o *outbox) next() (h held, waiting, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.held) == 0 {
		return held{}, false, o.closed || o.err != nil
	}
	return o.held[0], true, o.err != nil
}

// pass lets the first held reply go as r, and those behind it that need not wait themselves.
func (o *outbox) pass(r protocol.Reply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.append(r)
	n := 1
	for n < len(o.held) && o.held[n].until.IsZero() {
		o.append(o.held[n].reply)
		n++
	}
	o.held = o.held[n:]
	if len(o.held) == 0 {
		o.held = nil
	}
	signal(o.passed)
}

// release sends the replies that were held back, each when a checkpoint covers its batch, or as
// QUEUE_FULL when that took too long or the server ends: then the batch comes again and is recognised.
func (c *connection) release(ctx context.Context) {
	for {
		committed, _, changed := c.stream.watch()
		h, waiting, over := c.out.next()
		switch {
		case over:
			c.out.flush() // what passed just now
			return
		case waiting && h.batch <= committed:
			c.out.pass(h.reply)
			continue
		case waiting && (c.server.drained() || !time.Now().Before(h.until)):
			if c.expire(h.batch) {
				c.conn.Close()
				return
			}
			continue
		}
		if c.out.flush() != nil {
			c.conn.Close() // the reader may be waiting for the peer
			return
		}
		if !c.await(ctx, changed, h, waiting) {
			return
		}
	}
}

// expire answers QUEUE_FULL in the place of a RECEIVED that was held too long, and tells whether the
// connection owes too much now. When the batch has come again meanwhile, its last answer is another.
func (c *connection) expire(batch uint64) (full bool) {
	c.server.counters.grumble(c.server.log, c.stream.name, "no checkpoint covered a batch in time: RECEIVED became QUEUE_FULL", "batch", batch)
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	if batch <= c.stream.machine.Committed() { // just now
		c.out.pass(protocol.Reply{Code: protocol.CodeReceived})
		return false
	}
	if !c.out.again() {
		c.session.Refuse(batch)
	}
	c.out.pass(c.server.queueFull())
	return c.session.Full()
}

// await blocks until something happens to the held replies; false: the connection is over.
func (c *connection) await(ctx context.Context, changed <-chan struct{}, h held, waiting bool) bool {
	var late <-chan time.Time
	if waiting {
		timer := time.NewTimer(time.Until(h.until))
		defer timer.Stop()
		late = timer.C
	}
	settled := c.server.settled
	if c.server.drained() {
		settled = nil
	}
	select {
	case <-changed:
	case <-late:
	case <-c.out.came:
	case <-settled:
	case <-ctx.Done():
		return false
	}
	return true
}
