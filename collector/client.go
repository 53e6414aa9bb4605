package collector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const byeTime = 2 * time.Second // Close waits so long for the last acknowledgements

// Client sends records and holds each until it is acknowledged. Any number of goroutines may use it.
type Client struct {
	o       Options
	life    context.Context // ends with the client
	end     context.CancelFunc
	sending chan struct{} // without a journal, one Send at a time gives ids

	mu         sync.Mutex
	core       dialect
	next       uint64        // id of the next batch
	records    uint64        // held in the beginning, and sent
	unread     uint64        // acknowledged, and never in memory
	changed    chan struct{} // closed, and made anew, when the watermark moves or the client ends
	err        error         // why it ended
	connected  bool
	met        bool // there was a connection
	reconnects uint64
	renewals   uint64

	wake    chan struct{} // there may be something to write
	closing chan struct{} // closed by Close
	once    sync.Once
	over    chan struct{}
}

// Dial makes a client and starts to send what its journal holds. It does not wait for a connection: those are made in
// the background, whenever something is held, until Close or the end of ctx. On an error the journal is still the
// caller's.
func Dial(ctx context.Context, o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	core, err := o.dialect()
	if err != nil {
		return nil, err
	}
	c := &Client{
		o: o, core: core, next: 1, sending: make(chan struct{}, 1), changed: make(chan struct{}),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), over: make(chan struct{}),
	}
	if o.Journal != nil {
		_, c.next = o.Journal.Held()
		c.records = o.Journal.Records()
	}
	c.life, c.end = context.WithCancel(ctx)
	go c.run(c.life)
	return c, nil
}

// Send stores the records, durably if there is a journal, and returns; they are sent meanwhile. In dialect 2 they are one
// batch, which is taken and acknowledged together, if they are no more than MaxBatch and BatchRecords, else as few as can
// be; in dialect 1 each is one. The id is that of the last batch, for Wait; ids rise with each batch. Send waits while the buffer is full. An error is a *BadRecord, before anything was
// stored, or why the client or ctx ended, and then a journal has nothing of the call; without one, the client may hold
// some of its first records. The client copies the records.
func (c *Client) Send(ctx context.Context, records ...[]byte) (id uint64, err error) {
	return c.SendFrom(ctx, nil, records...)
}

// SendFrom is Send, and the journal also keeps the source: where the caller goes on behind these records, in its own
// words. A crash leaves both or neither.
func (c *Client) SendFrom(ctx context.Context, source []byte, records ...[]byte) (id uint64, err error) {
	if bad := c.core.unfit(records); bad != nil {
		return 0, bad
	}
	if len(records) == 0 {
		return c.last(), nil
	}
	if err := c.await(ctx, func() bool { return true }); err != nil {
		return 0, err // it has ended
	}
	batches := c.core.batches(records)
	if c.o.Journal != nil {
		return c.store(ctx, source, batches)
	}
	for len(batches) > 0 {
		n := min(len(batches), max(1, c.o.Window/2))
		if id, err = c.produce(ctx, batches[:n]); err != nil {
			return 0, err
		}
		batches = batches[n:]
	}
	return id, nil
}

// store puts batches into the journal, from which they are read when there is room for them.
func (c *Client) store(ctx context.Context, source []byte, batches []Batch) (id uint64, err error) {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	first, err := c.o.Journal.Append(both, source, batches)
	if err != nil {
		if both.Err() == nil { // the disk's fault
			c.fail(err)
		}
		return 0, errors.Join(ctx.Err(), c.reason(err, ctx))
	}
	id = first + uint64(len(batches)) - 1
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = max(c.next, id+1)
	c.produced(batches)
	return id, nil
}

// reason is why the client ended, when that is why a call failed.
func (c *Client) reason(err error, ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.isClosing():
		return ErrClosed
	}
	return err
}

// produce waits for room in memory, and hands the batches to the core.
func (c *Client) produce(ctx context.Context, batches []Batch) (id uint64, err error) {
	select {
	case c.sending <- struct{}{}:
		defer func() { <-c.sending }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	size := int64(0)
	for _, b := range batches {
		size += int64(len(b.Payload))
	}
	err = c.await(ctx, func() bool {
		held, bytes := c.core.Held()
		return held == 0 || held+len(batches) <= c.o.Window && bytes+size <= maxBytes
	})
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range batches {
		if err := c.core.load(c.next, b); err != nil {
			return 0, err
		}
		c.next++
	}
	c.produced(batches)
	return c.next - 1, nil
}

// produced counts; the caller holds mu.
func (c *Client) produced(batches []Batch) {
	for _, b := range batches {
		c.records += uint64(b.Records)
	}
	signal(c.wake)
}

// last is the highest id that Send returned or the journal had.
func (c *Client) last() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next - 1
}

// Wait returns when the batch with this id is acknowledged, or why that will not be.
func (c *Client) Wait(ctx context.Context, id uint64) error {
	return c.await(ctx, func() bool { return c.core.Watermark() >= id })
}

// Flush returns when everything is acknowledged that was sent before the call, or was in the journal, or why that will
// not be.
func (c *Client) Flush(ctx context.Context) error { return c.Wait(ctx, c.last()) }

// Done is closed when the client has ended, by Close or by what no new connection can cure; Flush then returns why.
func (c *Client) Done() <-chan struct{} { return c.over }

// await waits for a condition of the core.
func (c *Client) await(ctx context.Context, holds func() bool) error {
	for {
		c.mu.Lock()
		err, done, changed := c.err, holds(), c.changed
		c.mu.Unlock()
		if err != nil || done {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Status is what people may want to know of a client.
type Status struct {
	Stats
	Reconnects  uint64 // connections after the first
	Renewals    uint64 // how often all that was held got new numbers: each may have brought duplicates
	Connected   bool
	BufferBytes int64 // of the journal, on disk
	BufferFull  bool  // a Send waits for room in the journal or on its disk
}

// Status is the state of now.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{Stats: c.core.Stats(), Reconnects: c.reconnects, Renewals: c.renewals, Connected: c.connected}
	s.Records = c.records
	s.Acknowledged += c.unread
	if c.o.Journal != nil {
		s.BufferBytes, s.BufferFull = c.o.Journal.Usage()
	}
	return s
}

// Close ends the connection and closes the journal. In dialect 2 it says BYE, and waits up to 2 s for the acknowledgement
// of what was sent. What is not acknowledged stays in the journal; without one it is lost: Flush before.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.closing) })
	c.mu.Lock()
	wait := c.connected && c.err == nil && c.core.bye()
	c.mu.Unlock()
	if wait {
		signal(c.wake)
		timer := time.NewTimer(byeTime)
		defer timer.Stop()
		select {
		case <-c.over:
		case <-timer.C:
		}
	}
	c.end()
	<-c.over
	c.fail(ErrClosed)
	if c.o.Journal == nil {
		return nil
	}
	return c.o.Journal.Close()
}

// fail ends the client; the first reason counts.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.end()
		c.announce()
	}
}

// announce wakes who waits for a change; the caller holds mu.
func (c *Client) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// signal wakes the one who waits, now or later.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// holds tells whether something is not acknowledged; the caller holds mu.
func (c *Client) holds() bool { return c.core.Watermark()+1 < c.next }

func (c *Client) watermark() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Watermark()
}

// ended is why a client that was not closed can't go on, now that its ctx is over.
func (c *Client) ended(ctx context.Context) {
	select {
	case <-c.closing:
	default:
		c.fail(fmt.Errorf("collector: %w", context.Cause(ctx)))
	}
}
