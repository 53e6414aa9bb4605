package server

import (
	"cmp"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// disk is what the clients of one collector have in common.
type disk struct {
	mu        sync.Mutex
	forgotten uint64            // highest watermark that one of them was told
	variants  map[uint64]string // numbers known to be taken with other bytes than the usual
}

func (d *disk) told(watermark uint64) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgotten = max(d.forgotten, watermark)
	return d.forgotten
}

// variant is which bytes to send under a number.
func (d *disk) variant(id uint64) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.variants[id], "a")
}

// conflict says that a number was not taken with these bytes.
func (d *disk) conflict(id uint64, body string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.variants[id] = "a"
	if strings.HasSuffix(body, "a") {
		d.variants[id] = "b"
	}
}

// agent is one client of a collector: it opens connections one after the other. Others of the same
// collector do so at the same time.
type agent struct {
	*disk
	h         *history
	ts        *testServer
	collector string
	random    *rand.Rand
	right     bool // it sends in order and goes back on refusal; else any number, with any bytes
	beat      func()
	cursor    uint64 // next number
}

// linearNumbers is the highest number that clients send.
const linearNumbers = 24

// connect is one connection from AUTH to its end, which is one of several.
func (a *agent) connect() {
	c := a.h.dial(a.ts, a.collector, a.beat)
	if a.random.IntN(8) == 0 { // cut before AUTH is answered
		until(c.t, "the server has it", func() bool { return !a.over(c) })
		c.lost(c.h.now())
		c.ask(c.auth(), a.batch(a.number()))
		a.cut(c)
		return
	}
	c.ask(c.auth())
	if _, out, ok := c.reply(); !ok || out.code != "ACK" {
		c.end()
		return
	}
	a.cursor = a.told(0) + 1
	for range 3 + a.random.IntN(6) {
		c.ask(a.requests(1 + a.random.IntN(3))...)
		if !a.read(c) {
			c.end()
			return
		}
	}
	a.leave(c)
}

// requests are what the agent does next.
func (a *agent) requests(n int) []pending {
	list := []pending{}
	for range n {
		switch {
		case a.random.IntN(3) == 0 || a.right && a.cursor > linearNumbers:
			list = append(list, commitOf(a.told(0)+1+a.random.Uint64N(6)))
		case a.right:
			list = append(list, a.batch(a.cursor))
			a.cursor++
		default:
			list = append(list, a.batch(a.number()))
		}
	}
	return list
}

// number is any: what was committed long ago, what is on its way, what is far ahead.
func (a *agent) number() uint64 {
	if a.random.IntN(3) == 0 {
		return 1 + a.random.Uint64N(linearNumbers)
	}
	return min(linearNumbers, a.told(0)+1+a.random.Uint64N(4))
}

func (a *agent) batch(id uint64) pending {
	variant := a.variant(id)
	if !a.right && a.random.IntN(3) == 0 {
		variant = "b"
	}
	return batchOf(id, variant)
}

// read takes all answers that are due.
func (a *agent) read(c *teller) bool {
	for len(c.waiting) > 0 {
		r, out, ok := c.reply()
		if !ok {
			return false
		}
		switch {
		case r.in.verb == "COMMIT" && out.code == "ACK":
			a.cursor = max(a.cursor, a.told(out.watermark)+1)
		case out.code == "CONFLICT":
			a.conflict(r.in.id, r.in.body)
			a.cursor = min(a.cursor, r.in.id)
		case r.in.verb == "BATCH" && out.code != "RECEIVED", out.code == "RESEND", out.code == "RETRY":
			a.cursor = min(a.cursor, r.in.id)
		}
	}
	return true
}

// leave ends a connection that is alive.
func (a *agent) leave(c *teller) {
	switch a.random.IntN(6) {
	default:
		c.end()
	case 1:
		c.lost(c.h.now())
		c.ask(a.requests(2)...)
		a.cut(c)
	case 2: // half a request, which is none
		r := a.batch(a.number())
		_, _ = c.conn.Write([]byte(r.line[:len(r.line)-a.random.IntN(2)]))
		a.cut(c)
	case 3: // all that was asked is answered after the end of the requests
		c.lost(c.h.now())
		c.ask(a.requests(3)...)
		assert.NoError(c.t, c.conn.CloseWrite())
		if a.read(c) {
			_, err := c.in.ReadByte()
			assert.True(c.t, errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed), "%v", err)
		}
		c.end()
	case 4:
		a.deaf(c)
	}
}

// cut ends the connection whatever is on its way. When the seat is given away next is seen by who gets it,
// or looked up: without either the check takes long.
func (a *agent) cut(c *teller) {
	if a.random.IntN(2) == 0 {
		_ = c.conn.SetLinger(0) // with RST: what the server has not read is gone
	}
	c.end()
	if !c.seated || a.random.IntN(2) == 0 {
		until(c.t, "the server is through with a connection", func() bool { return a.over(c) })
		a.h.over(a.collector, c.from)
	}
}

// over tells whether the server is through with the connection, or does not have it yet.
func (a *agent) over(c *teller) bool {
	return !slices.ContainsFunc(a.ts.live(), func(conn *connection) bool {
		return conn.conn.RemoteAddr().String() == c.conn.LocalAddr().String()
	})
}

// deaf stops reading until the server can't write, or gives it up; then it reads on, or cuts.
func (a *agent) deaf(c *teller) {
	c.lost(c.h.now()) // the server does not wait for ever
	wait := a.ts.options.WriteTimeout < patience && a.random.IntN(2) == 0
	c.ask(a.requests(3)...)
	sent := 0
	until(c.t, "the server can't write to a client that does not read, or gives it up", func() bool {
		if sent++; sent <= 12 { // more than the kernel takes
			c.ask(slices.Repeat([]pending{{line: "?"}}, 3000)...)
		}
		conn := a.seat(c)
		return conn == nil || !wait && len(conn.out.writing) > 0
	})
	if a.random.IntN(2) == 0 {
		a.read(c)
	}
	a.cut(c)
}

// seat is the server's side of the connection, nil when it does not have the seat.
func (a *agent) seat(c *teller) *connection {
	st := a.ts.lookup(a.collector)
	st.mu.Lock()
	defer st.mu.Unlock()
	if conn := st.connection; conn != nil && conn.conn.RemoteAddr().String() == c.conn.LocalAddr().String() {
		return conn
	}
	return nil
}

// finish sends again what is not acknowledged until all of it is, on a connection that nobody disturbs
// any more, and writes down what the sink has then.
func (a *agent) finish(w *world) {
	c := a.h.dial(a.ts, a.collector, func() {})
	c.ask(c.auth())
	_, out, _ := c.reply()
	require.Equal(c.t, "ACK", out.code)
	one := func(r pending) outcome {
		c.ask(r)
		_, out, ok := c.reply()
		require.True(c.t, ok)
		return out
	}
	committed, _, _ := a.ts.lookup(a.collector).watch() // perhaps nobody asked, and it is too old to be recognised
	for id := min(committed+1, linearNumbers); id <= linearNumbers; id++ {
		until(c.t, "a batch is taken", func() bool {
			out := one(batchOf(id, a.variant(id)))
			if out.code == "CONFLICT" {
				a.conflict(id, batchOf(id, a.variant(id)).in.body)
			}
			require.NoError(c.t, a.ts.Resume(a.collector))
			return out.code == "RECEIVED"
		})
	}
	until(c.t, "all is acknowledged", func() bool { return one(commitOf(linearNumbers)) == outcome{code: "ACK", watermark: linearNumbers} })
	a.h.add(asked{collector: a.collector, verb: "CONTENT", bodies: bodiesOf(a.collector, w.durable())}, a.h.now(), outcome{}, a.h.now())
	c.end()
}
