package collector

import (
	"fmt"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// MaxRecord is the longest record in bytes: with the largest number before it, it makes a line that an ingress takes by
// default.
const MaxRecord = protocol.DefaultMaxLine - len("__BATCH__:9223372036854775807:")

const (
	minPoll = time.Millisecond // between two questions, while the watermark moves
	maxPoll = 50 * time.Millisecond
)

// Stats are counts since the core was made.
type Stats struct {
	Records      uint64 // held in the beginning, and produced
	Acknowledged uint64 // of these
	Sent         uint64 // records in BATCH requests
	Resent       uint64 // of these, not for the first time
}

// Core decides what to send next and what a reply means: the collector of System.tla, with its actions as methods. It
// is pure: it knows the time only from its arguments, and does no I/O. One goroutine at a time may use it.
//
// Batches have one record each. Those held are numbered without a gap, and those not sent yet, or to be sent again, are
// always the last of them.
type Core struct {
	window window
	retry  Backoff
	jitter func() float64

	buffer queue[[]byte] // what is held, from number first
	first  uint64
	bytes  int64
	stats  Stats
	ever   uint64 // highest number ever sent

	// Of this connection.
	flying  queue[request] // sent, no reply yet
	batches int            // of these
	open    bool           // AUTH was answered ACK
	next    uint64         // lowest number to be sent
	sent    uint64         // highest number sent
	named   uint64         // highest number RECEIVED

	back     uint64    // lowest number refused, to go back to; 0: none
	resume   time.Time // when
	refusals int       // in a row

	asking bool // a COMMIT is flying
	ask    time.Time
	pause  time.Duration
}

type request struct {
	command protocol.Command
	id      uint64
}

// NewCore makes a core that holds the given records, the first of them under the number first, at least 1. Window is
// how many may be sent and unacknowledged; jitter yields numbers in [0, 1).
func NewCore(first uint64, held [][]byte, window int, retry Backoff, jitter func() float64) *Core {
	if first < 1 || window < 1 {
		panic(fmt.Sprintf("collector: first is %d and the window %d, allowed is at least 1", first, window))
	}
	c := &Core{window: newWindow(window), retry: retry, jitter: jitter, first: first, next: first}
	for _, record := range held {
		c.Produce(record)
	}
	return c
}

// Produce gives the next number to a record and holds it. The core keeps the slice until it is acknowledged.
func (c *Core) Produce(record []byte) (id uint64) {
	id = c.end()
	c.buffer.push(record)
	c.bytes += int64(len(record))
	c.stats.Records++
	return id
}

// Held is how many records are not acknowledged, and their bytes.
func (c *Core) Held() (records int, bytes int64) { return c.buffer.len(), c.bytes }

// Watermark is the highest number acknowledged.
func (c *Core) Watermark() uint64 { return c.first - 1 }

// Stats are the counts so far.
func (c *Core) Stats() Stats { return c.stats }

// Open tells whether the ingress has let this connection in.
func (c *Core) Open() bool { return c.open }

// Waiting tells whether a reply is due.
func (c *Core) Waiting() bool { return c.flying.len() > 0 }

func (c *Core) end() uint64 { return c.first + uint64(c.buffer.len()) }

// Connect begins a connection: everything held is unsent again. It appends the request to send.
func (c *Core) Connect(dst []byte, token string) []byte {
	c.flying.clear()
	c.batches, c.open, c.asking = 0, false, false
	c.next, c.sent, c.named, c.back = c.first, 0, 0, 0
	c.ask, c.pause = time.Time{}, minPoll
	c.flying.push(request{command: protocol.CommandAuth})
	return protocol.AppendAuth(dst, token)
}

// Send is SendBatch and SendCommit: it appends the requests that may be sent now, until dst has size bytes or more.
func (c *Core) Send(dst []byte, now time.Time, size int) []byte {
	if c.back != 0 && c.batches == 0 && !now.Before(c.resume) {
		c.next, c.back = c.back, 0
	}
	for c.maySend() && len(dst) < size {
		dst = protocol.AppendBatch(dst, c.next, c.buffer.at(int(c.next-c.first)))
		c.flying.push(request{protocol.CommandBatch, c.next})
		c.batches++
		c.stats.Sent++
		if c.next <= c.ever {
			c.stats.Resent++
		}
		c.ever, c.sent = max(c.ever, c.next), max(c.sent, c.next)
		c.next++
	}
	if c.mayAsk() && !now.Before(c.ask) {
		dst = protocol.AppendCommit(dst, c.first)
		c.flying.push(request{protocol.CommandCommit, c.first})
		c.asking = true
	}
	return dst
}

func (c *Core) maySend() bool {
	return c.open && c.back == 0 && c.next < c.end() && c.next-c.first < uint64(c.window.size)
}

// mayAsk tells whether the lowest number held can be asked about: any ACK carries the whole watermark, and asking about
// a higher one would only be answered later.
func (c *Core) mayAsk() bool {
	return c.open && !c.asking && c.buffer.len() > 0 && c.first <= c.named
}

// Wake is when Send may have more to append though nothing else happens; false: never.
func (c *Core) Wake() (at time.Time, ok bool) {
	if c.back != 0 && c.batches == 0 {
		at, ok = c.resume, true
	}
	if c.mayAsk() && (!ok || c.ask.Before(at)) {
		at, ok = c.ask, true
	}
	return at, ok
}

// TakeReply takes the answer to the oldest request that has none. An error ends the connection: ErrRejected and
// ErrUnexpected until the next one, *Refused and *Overdrawn for good. Nothing is forgotten by an error.
func (c *Core) TakeReply(r protocol.Reply, now time.Time) error {
	if c.flying.len() == 0 {
		return fmt.Errorf("%w: %v, and nothing was asked", ErrUnexpected, r.Code)
	}
	asked := c.flying.pop()
	switch asked.command {
	case protocol.CommandBatch:
		c.batches--
		return c.takeBatch(asked.id, r, now)
	case protocol.CommandCommit:
		c.asking = false
		return c.takeCommit(asked.id, r, now)
	default:
		return c.takeAuth(r)
	}
}

func (c *Core) takeAuth(r protocol.Reply) error {
	switch {
	case r.Code == protocol.CodeAck && r.Watermark == 0:
		c.open = true
		return nil
	case r.Code == protocol.CodeRejected:
		return ErrRejected
	case r.Code == protocol.CodeAuthFailed, r.Code == protocol.CodeBadRequest:
		return &Refused{Code: r.Code}
	}
	return unexpected(r, protocol.CommandAuth)
}

func (c *Core) takeBatch(id uint64, r protocol.Reply, now time.Time) error {
	switch r.Code {
	case protocol.CodeReceived:
		c.named = max(c.named, id)
		if c.back == 0 {
			c.refusals = 0
		}
	case protocol.CodeQueueFull:
		if id >= c.first && (c.back == 0 || id < c.back) {
			c.window.full(int(id - c.first))
		}
		c.goBack(id, r.Wait, now)
	case protocol.CodeRetry:
		c.again(id, now)
	case protocol.CodeConflict, protocol.CodeStale, protocol.CodeTooLarge, protocol.CodeDecryptFailed,
		protocol.CodeDecodeFailed, protocol.CodeBadRequest, protocol.CodeInvalidParam:
		return c.refused(id, r.Code)
	default:
		return unexpected(r, protocol.CommandBatch)
	}
	return nil
}

func (c *Core) takeCommit(id uint64, r protocol.Reply, now time.Time) error {
	switch {
	case r.Code == protocol.CodeAck && r.Watermark > c.sent:
		return &Overdrawn{r.Watermark, c.sent}
	case r.Code == protocol.CodeAck && r.Watermark >= id:
		c.acknowledge(r.Watermark)
		c.pause = minPoll
	case r.Code == protocol.CodePending:
		c.pause = min(2*c.pause, maxPoll)
	case r.Code == protocol.CodeResend, r.Code == protocol.CodeRetry:
		c.again(id, now)
	case r.Code == protocol.CodeTooLarge, r.Code == protocol.CodeBadRequest, r.Code == protocol.CodeInvalidParam:
		return &Refused{Code: r.Code}
	default:
		return unexpected(r, protocol.CommandCommit)
	}
	c.ask = now.Add(c.pause)
	return nil
}

func unexpected(r protocol.Reply, to protocol.Command) error {
	return fmt.Errorf("%w: %v:%d to %v", ErrUnexpected, r.Code, r.Watermark, to)
}

func (c *Core) refused(id uint64, code protocol.Code) error {
	e := &Refused{Code: code, ID: id, Number: id}
	if id >= c.first {
		e.Record = c.buffer.at(int(id - c.first))
	}
	return e
}

// acknowledge forgets everything up to the watermark.
func (c *Core) acknowledge(watermark uint64) {
	n := 0
	for c.buffer.len() > 0 && c.first <= watermark {
		c.bytes -= int64(len(c.buffer.pop()))
		c.first++
		n++
	}
	c.stats.Acknowledged += uint64(n)
	c.window.acknowledged(n)
	c.next = max(c.next, c.first)
	if c.back != 0 {
		c.back = max(c.back, c.first)
	}
}

// again goes back to a number that must be sent again. When a lower one was refused, this is only a consequence.
func (c *Core) again(id uint64, now time.Time) {
	if id < c.first || c.back != 0 && c.back <= id {
		return
	}
	c.refusals++
	c.goBack(id, c.retry.Wait(c.refusals, c.jitter()), now)
}

// goBack makes id the next number to be sent, when all that is flying is answered and the wait is over.
func (c *Core) goBack(id uint64, wait time.Duration, now time.Time) {
	if id < c.first {
		return
	}
	until := now.Add(wait)
	if c.back == 0 || until.After(c.resume) {
		c.resume = until
	}
	if c.back == 0 || id < c.back {
		c.back = id
	}
}
