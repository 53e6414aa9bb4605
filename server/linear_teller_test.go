package server

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// teller is one connection of a collector whose requests are written down. One goroutine uses it.
type teller struct {
	t         *testing.T
	h         *history
	beat      func() // called at each answer
	collector string
	from      int
	conn      *net.TCPConn
	in        *bufio.Reader
	waiting   []pending
	answered  int
	seated    bool
	heard     int64 // when the last answer came
	left      int64 // from when on the server may have given the seat away; 0: it has not
}

// pending is a request that was written and not answered; without a verb it is no request at all.
type pending struct {
	in   asked
	line string
	call int64
}

func (h *history) dial(ts *testServer, collector string, beat func()) *teller {
	conn, err := ts.connect()
	require.NoError(ts.t, err)
	return &teller{
		t: ts.t, h: h, beat: beat, collector: collector, from: h.connection(collector),
		conn: conn.(*net.TCPConn), in: bufio.NewReader(conn),
	}
}

func (c *teller) auth() pending {
	return pending{line: "__AUTH__:tok-" + strings.ToUpper(c.collector), in: asked{verb: "AUTH"}}
}

func batchOf(id uint64, variant string) pending {
	body := fmt.Sprintf("%d.%s", id, variant)
	return pending{line: fmt.Sprintf("__BATCH__:%d:%s", id, body), in: asked{verb: "BATCH", id: id, body: body}}
}

func commitOf(id uint64) pending {
	return pending{line: fmt.Sprintf("__COMMIT__:%d", id), in: asked{verb: "COMMIT", id: id}}
}

// ask writes requests at once. Those that a broken connection did not take are as unanswered as others.
func (c *teller) ask(requests ...pending) {
	var text strings.Builder
	for _, r := range requests {
		text.WriteString(r.line + "\n")
	}
	call := c.h.now()
	for _, r := range requests {
		r.call, r.in.collector, r.in.from = call, c.collector, c.from
		c.waiting = append(c.waiting, r)
	}
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	_, _ = c.conn.Write([]byte(text.String())) // reading tells what came of it
}

// reply reads the answer to the oldest request; false: the connection is over.
func (c *teller) reply() (pending, outcome, bool) {
	r := c.waiting[0]
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	line, err := c.in.ReadString('\n')
	if err != nil {
		assert.NotErrorIs(c.t, err, os.ErrDeadlineExceeded, "no answer to %s", r.line)
		c.lost(c.heard) // the server ended it some time after that
		return r, outcome{}, false
	}
	c.heard = c.h.now()
	c.waiting = c.waiting[1:]
	code, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
	out := outcome{code: code}
	if r.in.verb == "" {
		assert.Equal(c.t, "BAD_REQUEST", code)
		return r, out, true
	}
	if code == "ACK" && r.in.verb == "COMMIT" {
		out.watermark, _ = strconv.ParseUint(number, 10, 63) // none, or 0, is never legal
	}
	r.in.order = c.answered
	c.answered++
	c.h.add(r.in, r.call, out, c.heard)
	c.seated = c.seated || r.in.verb == "AUTH" && code == "ACK"
	c.beat()
	return r, out, true
}

// lost notes from when on the server may have given the seat away.
func (c *teller) lost(at int64) {
	if c.left == 0 {
		c.left = at
	}
}

// end closes the connection, and writes down what was not answered: it may be served until the seat is
// given away, which is some time later.
func (c *teller) end() {
	c.lost(c.h.now())
	c.conn.Close()
	unanswered := len(c.waiting) > 0 && c.waiting[0].in.verb == "AUTH"
	for _, r := range c.waiting {
		if r.in.verb == "AUTH" || r.in.verb == "BATCH" { // an unanswered COMMIT changes nothing
			if r.in.order = c.answered; unanswered && r.in.verb == "BATCH" {
				r.in.order = 1
			}
			c.h.add(r.in, r.call, outcome{}, unknown)
		}
	}
	if c.seated || unanswered {
		c.h.add(asked{collector: c.collector, from: c.from, verb: "CLOSE"}, c.left, outcome{}, unknown)
	}
}
