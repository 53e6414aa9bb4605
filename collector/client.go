package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options say where a Client sends to. Address and Token are needed; every other zero value means the default named
// beside it.
type Options struct {
	Address string // HOST:PORT
	Token   string

	// Journal keeps what is not acknowledged; the client closes it. nil: nothing outlives the process, and numbers begin
	// at 1.
	Journal *Journal
	// Window is how many records may be held at once, 1 to 4096; default 512. It must not be above the history of the
	// ingress.
	Window int
	// Backoff bounds the waits between connections, and between tries of what was refused; default 100ms to 5s.
	Backoff Backoff
	// Timeout is how long a reply, a write and a dial may take; default 30s. It must be above the time for which the
	// ingress may hold a reply back.
	Timeout time.Duration
	// Rejected is for how long REJECTED is tried again: our own last connection may linger; default 2m.
	Rejected time.Duration

	// Log tells of connections that end; default: nothing.
	Log *slog.Logger
	// Jitter yields numbers in [0, 1); default math/rand/v2.
	Jitter func() float64
	// Dial opens a connection; default: TCP to Address.
	Dial func(context.Context) (net.Conn, error)
}

const (
	maxWindow = 4096     // the history of an ingress by default
	maxToken  = 4087     // an AUTH line has at most 4 KiB
	maxBytes  = 64 << 20 // held at once, but always one record
)

func fallback[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

func (o *Options) complete() error {
	fallback(&o.Window, 512)
	fallback(&o.Backoff, Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second})
	fallback(&o.Timeout, 30*time.Second)
	fallback(&o.Rejected, 2*time.Minute)
	fallback(&o.Log, slog.New(slog.DiscardHandler))
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.Dial == nil {
		dialer := net.Dialer{Timeout: o.Timeout, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		}}
		o.Dial = func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", o.Address) }
	}
	if o.Window < 1 || o.Window > maxWindow {
		return fmt.Errorf("collector: Window is %d, allowed is 1 to %d", o.Window, maxWindow)
	}
	if n := len(o.Token); n < 1 || n > maxToken || strings.Contains(o.Token, "\n") {
		return fmt.Errorf("collector: Token has %d bytes, allowed are 1 to %d without an LF", n, maxToken)
	}
	return o.Backoff.check()
}

// Client sends records and holds each until it is acknowledged. Any number of goroutines may use it.
type Client struct {
	o       Options
	sending sync.Mutex // one Send at a time gives numbers

	mu         sync.Mutex
	core       *Core
	changed    chan struct{} // closed, and made anew, when the watermark moves or the client ends
	err        error         // why it ended
	connected  bool
	met        bool // there was a connection
	reconnects uint64

	wake chan struct{} // there may be something to write
	end  context.CancelFunc
	over chan struct{}
}

// New makes a client and starts to send what its journal holds. On an error the journal is still the caller's.
func New(o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	first, held := uint64(1), [][]byte(nil)
	if o.Journal != nil {
		first, held = o.Journal.Held()
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{
		o: o, core: NewCore(first, held, o.Window, o.Backoff, o.Jitter), changed: make(chan struct{}),
		wake: make(chan struct{}, 1), end: cancel, over: make(chan struct{}),
	}
	go c.run(ctx)
	return c, nil
}

// Send numbers the records, stores them in the journal, and returns; they are sent meanwhile. It waits while the window
// is full. An error is a *BadRecord, before anything of this call was numbered, or why the client or ctx ended: then
// some of the first records may have been numbered. The client copies the records.
func (c *Client) Send(ctx context.Context, records ...[]byte) error {
	return c.SendFrom(ctx, nil, records...)
}

// SendFrom is Send, and the journal also keeps the source: where the caller goes on behind these records, in its own
// words. A crash leaves both or neither, if the records are no more than half of the window.
func (c *Client) SendFrom(ctx context.Context, source []byte, records ...[]byte) error {
	for i, record := range records {
		if problem := unfit(record); problem != "" {
			return &BadRecord{i, problem}
		}
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	for len(records) > 0 {
		part := records[:min(len(records), max(1, c.o.Window/2))]
		records = records[len(part):]
		if err := c.produce(ctx, source, part); err != nil {
			return err
		}
	}
	return nil
}

func unfit(record []byte) string {
	if len(record) > MaxRecord {
		return "it has " + strconv.Itoa(len(record)) + " bytes, allowed are " + strconv.Itoa(MaxRecord)
	}
	if at := bytes.IndexByte(record, '\n'); at >= 0 {
		return "it holds an LF at byte " + strconv.Itoa(at) + ", which ends a record"
	}
	return ""
}

// produce waits for room, stores the records, and hands them to the core.
func (c *Client) produce(ctx context.Context, source []byte, records [][]byte) error {
	size := 0
	for _, record := range records {
		size += len(record)
	}
	err := c.await(ctx, func() bool {
		held, bytes := c.core.Held()
		return held == 0 || held+len(records) <= c.o.Window && bytes+int64(size) <= maxBytes
	})
	if err != nil {
		return err
	}
	if c.o.Journal != nil {
		if err := c.o.Journal.Append(source, records); err != nil {
			c.fail(err)
			return err
		}
	}
	room := make([]byte, 0, size)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, record := range records {
		at := len(room)
		room = append(room, record...)
		c.core.Produce(room[at:len(room):len(room)])
	}
	signal(c.wake)
	return nil
}

// Wait returns when everything is acknowledged, or why that will not be.
func (c *Client) Wait(ctx context.Context) error {
	return c.await(ctx, func() bool { held, _ := c.core.Held(); return held == 0 })
}

// Done is closed when the client has ended, by Close or by what no new connection can cure; Wait then returns why.
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
	Reconnects uint64 // connections after the first
	Connected  bool
}

// Status is the state of now.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{c.core.Stats(), c.reconnects, c.connected}
}

// Close ends the connection and closes the journal; it does not wait for acknowledgements. What is not acknowledged
// stays in the journal.
func (c *Client) Close() error {
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

// run connects again and again, while there is something to send.
func (c *Client) run(ctx context.Context) {
	defer close(c.over)
	failures, rejected := 0, time.Time{}
	for c.pending(ctx) {
		before := c.watermark()
		err := c.converse(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case !errors.Is(err, ErrRejected):
			rejected = time.Time{}
		case rejected.IsZero():
			rejected = time.Now()
		}
		if fatal(err) || !rejected.IsZero() && time.Since(rejected) >= c.o.Rejected {
			c.fail(err)
			return
		}
		if failures++; c.watermark() > before {
			failures = 1
		}
		if !c.retry(ctx, err, c.o.Backoff.Wait(failures, c.o.Jitter())) {
			return
		}
	}
}

// retry waits for the next connection, which nobody needs while nothing is held.
func (c *Client) retry(ctx context.Context, err error, wait time.Duration) bool {
	if !c.holds() {
		return true
	}
	c.o.Log.Warn("connection ended: what is not acknowledged will be sent again", "error", err.Error(), "again", wait.String())
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Client) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, _ := c.core.Held()
	return held > 0
}

// pending waits until something is held; false: the client has ended.
func (c *Client) pending(ctx context.Context) bool {
	for {
		if c.holds() && ctx.Err() == nil {
			return true
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return false
		}
	}
}

func (c *Client) watermark() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Watermark()
}
