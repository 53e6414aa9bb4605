package collector

import (
	"fmt"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// TakeReply takes what the ingress said. An error ends the connection: ErrRejected, ErrFenced, ErrIdle, ErrUnexpected and
// ErrBye until the next one, ErrRetired and ErrForgot until the next one after Anew, *Refused and *Overdrawn for good.
// Nothing is forgotten by an error. A *Refused with an ID is about one batch: Skip can cure it, and the connection goes
// on.
func (c *Core2) TakeReply(r protocol.Reply2, now time.Time) error {
	c.pings.heard = now
	switch r.Code {
	case protocol.CodePing:
		if len(c.pings.owed) < 8 { // one answers many
			c.pings.owed = append(c.pings.owed, protocol.CommandPong)
		}
		return nil
	case protocol.CodePong:
		return nil
	case protocol.CodeError:
		return c.takeError(r)
	case protocol.CodeWelcome:
		if c.mode == modeAsked {
			return c.takeWelcome(r.Welcome)
		}
	case protocol.CodeGoaway:
		if c.mode != modeDown {
			c.mode, c.away, c.leave = modeLeaving, r.Wait, now.Add(c.pings.idle)
			return nil
		}
	case protocol.CodeBye:
		if c.mode == modeLeaving {
			return ErrBye
		}
	}
	if !c.Open() {
		return fmt.Errorf("%w: %v before WELCOME and READY", ErrUnexpected, r.Code)
	}
	return c.takePush(r, now)
}

// takePush takes what the ingress says of batches.
func (c *Core2) takePush(r protocol.Reply2, now time.Time) error {
	switch r.Code {
	case protocol.CodeAck:
		if r.Watermark < c.acked {
			return fmt.Errorf("%w: the watermark fell from %d to %d", ErrUnexpected, c.acked, r.Watermark)
		}
		if most := c.mostAcked(); r.Watermark > most {
			return &Overdrawn{r.Watermark, most}
		}
		c.acknowledge(r.Watermark)
	case protocol.CodeWindow:
		c.setWindow(r.Batches, r.Bytes)
	case protocol.CodeResend:
		c.goBack(c.id(r.ID))
		if r.Wait > 0 {
			c.resume = now.Add(r.Wait)
		}
	case protocol.CodeNack:
		return c.nack(r)
	default:
		return fmt.Errorf("%w: %v", ErrUnexpected, r.Code)
	}
	return nil
}

// mostAcked is the highest number that an ACK may carry: what was received before this connection or sent on it, or what
// is below all that is held.
func (c *Core2) mostAcked() uint64 {
	most := c.welcome.last
	if c.sent > 0 {
		most = max(most, c.number(c.sent))
	}
	if c.hello.first > 0 {
		most = max(most, c.hello.first-1)
	}
	return most
}

func (c *Core2) takeWelcome(w *protocol.Welcome) error {
	switch {
	case !c.numbers.Known:
		c.numbers.Known, c.numbers.Offset = true, int64(w.Received)-int64(c.first-1)
	case w.Received >= c.hello.last: // the ingress had to say so
		return ErrForgot
	}
	c.mode = modeNumber
	if c.confirmed {
		c.Stored()
	}
	c.welcome = span2{w.Committed, w.Received}
	c.acknowledge(w.Committed)
	c.cursor, c.top = c.first, c.id(w.Received)
	c.missing = c.missing[:0]
	for _, r := range w.Missing {
		if last := c.id(r.Last); last >= c.first {
			c.missing = append(c.missing, span2{max(c.first, c.id(r.First)), last})
		}
	}
	c.pings.idle = w.Idle
	c.setWindow(w.WindowBatches, w.WindowBytes)
	return nil
}

// setWindow takes what the ingress allows, within what the caller does.
func (c *Core2) setWindow(batches, bytes uint64) {
	c.window = Limits2{min(batches, c.limits.Batches), int64(min(bytes, uint64(c.limits.Bytes)))}
}

// goBack makes every id from this one on unsent.
func (c *Core2) goBack(id uint64) {
	c.cursor = min(c.cursor, max(id, c.first))
	if id > c.top {
		return
	}
	c.top = max(id, 1) - 1
	for i, r := range c.missing {
		if r.last > c.top {
			c.missing[i].last = c.top
			c.missing = c.missing[:i+1]
			if r.first > c.top {
				c.missing = c.missing[:i]
			}
			return
		}
	}
}

// acknowledge forgets everything up to a number.
func (c *Core2) acknowledge(number uint64) {
	c.acked = number
	watermark := c.id(number)
	for c.buffer.len() > 0 && c.first <= watermark {
		c.stats.Acknowledged += uint64(c.buffer.pop().Records)
		c.first++
	}
	c.first = max(c.first, watermark+1)
}

// nack tells of a batch that is refused for good.
func (c *Core2) nack(r protocol.Reply2) error {
	id := c.id(r.ID)
	if id < c.first || id >= c.end() || id > c.sent {
		return fmt.Errorf("%w: NACK of %d, which is not on its way", ErrUnexpected, r.ID)
	}
	return c.refuse(id, r.Reason, r.Text)
}

func (c *Core2) refuse(id uint64, reason protocol.Code, text string) error {
	b := c.buffer.at(int(id - c.first))
	e := &Refused{Code: reason, ID: id, Number: c.number(id), Batch: b.Batch, Text: text}
	for record := range protocol.Records(b.Payload) {
		e.Record = record
		break
	}
	return e
}

// takeError tells what an ERROR means for the next connection.
func (c *Core2) takeError(r protocol.Reply2) error {
	switch r.Reason {
	case protocol.CodeFenced:
		return ErrFenced
	case protocol.CodeRejected:
		return ErrRejected
	case protocol.CodeRetired:
		return ErrRetired
	case protocol.CodeForgot:
		return ErrForgot
	case protocol.CodeIdle:
		return ErrIdle
	case 0, protocol.CodeWindow:
		return fmt.Errorf("%w: ERROR %v %s", ErrUnexpected, r.Reason, r.Text)
	}
	return &Refused{Code: r.Reason, Text: r.Text}
}
