package server

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tidemark/tidemark/protocol"
)

// teller2 is one connection of dialect 2 whose requests are written down. Most are not answered: that one was served
// shows in a later answer, and a PING behind it gets one.
type teller2 struct {
	*teller
	parser  protocol.ReplyParser2
	welcome *protocol.Welcome
	told    uint64          // the last watermark
	gap     uint64          // it was refused for now
	nacked  []uint64        // were refused for good, and not skipped
	taken   map[uint64]bool // CONFLICT or STALE
	refused string          // why HELLO was
	fenced  bool
	ended   bool
}

func (h *history) dial2(ts *testServer, collector string, beat func()) *teller2 {
	c := &teller2{teller: h.dial(ts, collector, beat), taken: map[uint64]bool{}}
	assert.NoError(c.t, c.conn.SetReadBuffer(4<<10))
	return c
}

// pending2 is a message; ask puts an LF behind it.
func pending2(message []byte, in asked) pending {
	return pending{line: strings.TrimSuffix(string(message), "\n"), in: in}
}

func helloOf2(h *protocol.Hello) pending {
	return pending2(protocol.AppendHello2(nil, h), asked{verb: "HELLO", hello: h})
}

func readyOf2() pending { return pending2(protocol.AppendReady2(nil), asked{verb: "READY"}) }

func pingOf2() pending { return pending2(protocol.AppendPing2(nil), asked{}) }

func skipOf2(id uint64) pending {
	return pending2(protocol.AppendSkip2(nil, id), asked{verb: "SKIP", id: id})
}

func batchOf2(id uint64, variant string) pending {
	body := fmt.Sprintf("%d.%s", id, variant)
	records := 1
	if undecodable(body) {
		records = 2
	}
	payload := protocol.AppendRecord(nil, []byte(body))
	return pending2(protocol.AppendBatch2(nil, id, records, payload), asked{verb: "BATCH", id: id, body: body})
}

// listen reads until all that was asked is known to be served; false: the connection is over.
func (c *teller2) listen() bool {
	reader := client2{t: c.t, conn: c.conn, in: c.in, parser: c.parser}
	defer func() { c.parser = reader.parser }()
	for len(c.waiting) > 0 {
		_ = c.conn.SetDeadline(time.Now().Add(patience))
		r, err := reader.read()
		if err != nil {
			assert.NotErrorIs(c.t, err, os.ErrDeadlineExceeded, "no answer to %q", c.waiting[0].line)
			c.lost(c.waiting[0].call) // the server ended it some time after that
			return false
		}
		c.heard = c.h.now()
		if !c.hear(r) {
			return false
		}
		c.beat()
	}
	return true
}

// hear takes one message; false: it is the last.
func (c *teller2) hear(r protocol.Reply2) bool {
	switch r.Code {
	case protocol.CodeWelcome:
		c.welcome, c.told = r.Welcome, r.Welcome.Committed
		c.seated = true
		c.h.add(asked{collector: c.collector, from: c.from, verb: "FENCES"}, c.waiting[0].call, outcome{}, c.heard)
		return c.answered2("HELLO", 0, outcome{code: "WELCOME", welcome: r.Welcome})
	case protocol.CodePong:
		return c.answered2("", 0, outcome{})
	case protocol.CodeResend:
		c.gap = r.ID
		return c.answered2("BATCH", r.ID, outcome{code: "RESEND"})
	case protocol.CodeNack:
		if r.Reason == protocol.CodeConflict || r.Reason == protocol.CodeStale {
			c.taken[r.ID] = true
			c.lost(c.waiting[0].call)
		} else {
			c.nacked = append(c.nacked, r.ID)
		}
		return c.answered2("BATCH", r.ID, outcome{code: r.Reason.String()}) && !c.taken[r.ID]
	case protocol.CodeAck:
		c.told = r.Watermark
		c.tells("ACKED", r.Watermark, outcome{})
	case protocol.CodeWindow:
	case protocol.CodeGoaway: // the seat could not be stored
		c.lost(c.waiting[0].call)
		c.tells("GOAWAY", 0, outcome{})
	case protocol.CodeError:
		return c.refusal(r.Reason.String())
	default:
		assert.Fail(c.t, "unexpected", "%s", line(r))
	}
	return true
}

// refusal is an ERROR.
func (c *teller2) refusal(reason string) bool {
	c.lost(c.waiting[0].call)
	switch {
	case reason == "FENCED":
		c.fenced = true
		c.tells("FENCED", 0, outcome{})
	case c.waiting[0].in.verb == "HELLO":
		c.refused = reason
		c.answered2("HELLO", 0, outcome{code: reason})
	default:
		c.tells("ERROR", 0, outcome{code: reason})
	}
	return false
}

// tells writes down what the server said without being asked, which holds now.
func (c *teller2) tells(verb string, id uint64, out outcome) {
	c.h.add(asked{collector: c.collector, from: c.from, verb: verb, id: id}, c.heard, out, c.heard)
}

// answered2 writes down an answer, and that all asked before was served.
func (c *teller2) answered2(verb string, id uint64, out outcome) bool {
	for i, r := range c.waiting {
		if r.in.verb == verb && r.in.id == id {
			for _, before := range c.waiting[:i] {
				c.served(before, outcome{code: "PASSED"})
			}
			c.served(r, out)
			c.waiting = c.waiting[i+1:]
			return true
		}
	}
	return assert.Fail(c.t, "an answer that nobody asked for", "%s %d %s", verb, id, out)
}

func (c *teller2) served(r pending, out outcome) {
	if r.in.verb == "" {
		return
	}
	if r.in.id == c.gap && out.code != "RESEND" {
		c.gap = 0
	}
	r.in.order = c.answered
	c.answered++
	c.h.add(r.in, r.call, out, c.heard)
}

// end closes the connection, and writes down what is not known to be served: it may be until the seat is gone.
func (c *teller2) end() {
	if c.ended {
		return
	}
	c.ended = true
	if len(c.waiting) > 0 { // the server may have answered and ended it, unheard
		c.lost(c.waiting[0].call)
	}
	c.lost(c.h.now())
	c.conn.Close()
	unanswered := false
	for _, r := range c.waiting {
		unanswered = unanswered || r.in.verb == "HELLO"
		if r.in.verb != "" {
			r.in.order = max(c.answered, 2)
			c.h.add(r.in, r.call, outcome{}, unknown)
		}
	}
	c.waiting = nil
	if c.seated && !c.fenced || unanswered {
		c.h.add(asked{collector: c.collector, from: c.from, verb: "CLOSE"}, c.left, outcome{}, unknown)
	}
}
