package server

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

// buffer is what the connections of one instance have in common; when it is superseded a new one takes its place.
type buffer struct {
	mu          sync.Mutex
	name        string // of the instances, which are counted
	life        int
	first, last uint64          // numbers it has batches under; 0: none yet
	acked       uint64          // highest watermark that one of them was told
	taken       map[uint64]bool // numbers known to be taken with other bytes, or too old
}

// linearBatches is how many batches an instance has.
const linearBatches = 14

// instance is the last one; the lock is held.
func (b *buffer) instance() string { return fmt.Sprintf("%s%d", b.name, b.life) }

// renew begins a new instance in the place of one.
func (b *buffer) renew(instance string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if instance == b.instance() {
		b.life++
		b.first, b.last, b.acked, b.taken = 0, 0, 0, map[uint64]bool{}
	}
}

// hello is what a connection says.
func (b *buffer) hello(collector string) *protocol.Hello {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &protocol.Hello{Collector: collector, Instance: b.instance()}
	h.Token = map[string]string{"a": "tok-A", "b": "tok-B"}[collector]
	if b.last > 0 {
		h.First, h.Next = max(b.first, min(b.acked, b.last)+1), b.last+1
	}
	return h
}

// heard takes what a connection of the instance was told.
func (b *buffer) heard(c *teller2, h *protocol.Hello) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.Instance != b.instance() || c.welcome == nil {
		return
	}
	if b.last == 0 {
		b.first, b.last = c.welcome.Received+1, c.welcome.Received+linearBatches
	}
	b.acked = max(b.acked, c.told)
	for id := range c.taken {
		b.taken[id] = true
	}
}

// wants tells whether a right collector sends the number on the connection.
func (b *buffer) wants(c *teller2, id uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return id <= b.last && !b.taken[id] && (id > c.welcome.Received || slices.Contains(numbersOf(c.welcome.Missing), id))
}

// agent2 is one client of a collector in dialect 2. It opens connections one after the other.
type agent2 struct {
	agent
	buffer *buffer
	hello  *protocol.Hello // of the last connection
}

func (a *agent2) dial() *teller2 { return a.h.dial2(a.ts, a.collector, a.beat) }

// says is the next HELLO. A wrong client forgets the end of its buffer at times, or its beginning.
func (a *agent2) says() pending {
	a.hello = a.buffer.hello(a.collector)
	if !a.right && a.hello.Next > a.hello.First {
		switch a.random.IntN(6) {
		case 0:
			a.hello.Next = a.hello.First + a.random.Uint64N(a.hello.Next-a.hello.First)
		case 1:
			a.hello.First += 1 + a.random.Uint64N(min(3, a.hello.Next-a.hello.First))
		}
	}
	return helloOf2(a.hello)
}

// connect is one connection from HELLO to its end, which is one of several.
func (a *agent2) connect() {
	if a.random.IntN(3) > 0 {
		until(a.ts.t, "nobody has the seat", a.free)
	}
	c := a.dial()
	switch a.random.IntN(8) {
	case 0: // cut before HELLO is answered
		until(c.t, "the server has it", func() bool { return !a.over(c.teller) })
		c.lost(c.h.now())
		c.ask(a.says(), readyOf2(), a.batch(c, 1+a.random.Uint64N(4)))
		a.cut(c)
		return
	case 1: // another one is welcomed before it is ready
		if a.ask(c, a.says()) {
			a.overtake(c, readyOf2())
		}
	default:
		if a.sit(c) && a.work(c) {
			a.leave(c)
		}
	}
	c.end()
}

// free tells whether no connection has the seat.
func (a *agent2) free() bool {
	st := a.ts.lookup(a.collector)
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.connection == nil
}

// sit takes the seat.
func (a *agent2) sit(c *teller2) bool {
	return a.ask(c, a.says()) && a.ask(c, readyOf2(), pingOf2())
}

// ask sends messages and reads until they are known to be served.
func (a *agent2) ask(c *teller2, requests ...pending) bool {
	c.ask(requests...)
	alive := c.listen()
	a.buffer.heard(c, a.hello)
	if c.refused == "RETIRED" || c.refused == "FORGOT" && a.random.IntN(2) == 0 {
		a.buffer.renew(a.hello.Instance)
	}
	return alive
}

// work sends batches.
func (a *agent2) work(c *teller2) bool {
	a.cursor = c.told + 1
	for range 3 + a.random.IntN(6) {
		if !a.ask(c, append(a.requests(c, 1+a.random.IntN(3)), pingOf2())...) {
			return false
		}
		if c.gap != 0 {
			a.cursor = min(a.cursor, c.gap)
		}
	}
	return true
}

// requests are what the agent sends next, no number twice.
func (a *agent2) requests(c *teller2, n int) []pending {
	list, sent := []pending{}, map[uint64]bool{}
	for _, id := range c.nacked {
		if a.random.IntN(3) > 0 && !sent[id] {
			list, sent[id] = append(list, skipOf2(id)), true
		}
	}
	c.nacked = nil
	for range n {
		id := c.told + 1 + a.random.Uint64N(linearWindow2)
		if a.right {
			for a.cursor = max(a.cursor, c.told+1); a.cursor <= c.told+linearWindow2 && !a.buffer.wants(c, a.cursor); a.cursor++ {
			}
			id = a.cursor
			a.cursor++
		} else if a.random.IntN(3) == 0 {
			id = 1 + a.random.Uint64N(c.told+linearWindow2)
		}
		if id <= c.told+linearWindow2 && !sent[id] {
			list, sent[id] = append(list, a.batch(c, id)), true
		}
	}
	return list
}

// batch is the one that the instance has under a number; a wrong client has another at times.
func (a *agent2) batch(c *teller2, id uint64) pending {
	variant := a.hello.Instance
	switch {
	case a.right && id%7 == 3, !a.right && a.random.IntN(8) == 0:
		variant += "!"
	case !a.right && a.random.IntN(4) == 0:
		variant += fmt.Sprintf("by%d", c.from)
	}
	return batchOf2(id, variant)
}

// overtake says HELLO on a second connection and then something on the first, which is over.
func (a *agent2) overtake(c *teller2, late ...pending) {
	d := a.dial()
	defer d.end()
	if !a.ask(d, a.says()) {
		return
	}
	mark := batchOf2(c.told+1, fmt.Sprintf("%slate%d", a.hello.Instance, c.from))
	c.ask(append(late, mark, pingOf2())...)
	c.listen()
	if a.ask(d, readyOf2(), pingOf2()) {
		a.work(d)
	}
}

// leave ends a connection that is alive.
func (a *agent2) leave(c *teller2) {
	switch a.random.IntN(5) {
	case 1:
		c.lost(c.h.now())
		c.ask(a.requests(c, 2)...)
		a.cut(c)
	case 2: // half a batch, which is none
		c.lost(c.h.now())
		whole := a.batch(c, c.told+1).line
		_, _ = c.conn.Write([]byte(whole[:len(whole)-1-a.random.IntN(5)]))
		a.cut(c)
	case 3:
		a.deaf(c)
	case 4: // with something on its way
		c.ask(a.requests(c, 3)...)
		a.overtake(c)
	}
}

// cut ends the connection whatever is on its way.
func (a *agent2) cut(c *teller2) {
	if a.random.IntN(2) == 0 {
		_ = c.conn.SetLinger(0) // with RST: what the server has not read is gone
	}
	c.end()
	if !c.seated || a.random.IntN(2) == 0 { // else who gets the seat next shows when it was given away
		until(c.t, "the server is through with a connection", func() bool { return a.over(c.teller) })
		a.h.over(a.collector, c.from)
	}
}

// deaf stops reading until the server can't write, or gives it up, or another connection takes over.
func (a *agent2) deaf(c *teller2) {
	c.lost(c.h.now()) // the server does not wait for ever
	wait := a.ts.options.WriteTimeout < patience && a.random.IntN(2) == 0
	c.ask(a.requests(c, 3)...)
	sent := 0
	until(c.t, "the server can't write to a client that does not read, or gives it up", func() bool {
		if sent++; sent <= 16 { // more than the kernel takes
			c.ask(slices.Repeat([]pending{pingOf2()}, 700)...)
		}
		conn := a.seat(c.teller)
		return conn == nil || !wait && len(conn.out.writing) > 0
	})
	a.cut(c) // reading on would wait for the timers of TCP
}

// finish sends what is missing on a connection that nobody disturbs any more, until all is acknowledged, and writes
// down what the sink has then. It asks the stream what is missing: WELCOME is judged afterwards.
func (a *agent2) finish(w *world) {
	st := a.ts.lookup(a.collector)
	st.mu.Lock()
	instance, next, missing := st.seat.Instance(), st.machine.Received()+1, slices.Clone(st.machine.Missing())
	st.mu.Unlock()
	a.hello = &protocol.Hello{Collector: a.collector, Instance: instance, First: 1, Next: next + 2}
	a.hello.Token = a.buffer.hello(a.collector).Token
	var c *teller2
	until(a.ts.t, "the last client has the seat", func() bool { return a.insist(&c, pingOf2()) })
	for id := c.told + 1; id <= next+1; id++ {
		if id < next && !slices.ContainsFunc(missing, func(r statemachine.Range) bool { return r.First <= id && id <= r.Last }) {
			continue
		}
		until(a.ts.t, "a batch is taken", func() bool {
			require.NoError(a.ts.t, a.ts.Resume(a.collector))
			if c == nil || id > c.told+linearWindow2 {
				a.insist(&c, pingOf2())
				return false
			}
			return a.insist(&c, batchOf2(id, instance+"end"), pingOf2()) && c.gap != id
		})
	}
	until(a.ts.t, "all is acknowledged", func() bool { return a.insist(&c, pingOf2()) && c.told == next+1 })
	a.h.add(asked{collector: a.collector, verb: "CONTENT", bodies: bodiesOf(a.collector, w.durable())}, a.h.now(), outcome{}, a.h.now())
	c.end()
}

// insist asks on a connection that nobody disturbs any more. When the server gave it up, for writing took too long, there
// is another one for the next try.
func (a *agent2) insist(c **teller2, requests ...pending) bool {
	if *c != nil && a.ask(*c, requests...) {
		return true
	}
	if *c != nil {
		(*c).end()
	}
	*c = a.h.dial2(a.ts, a.collector, func() {})
	if !a.ask(*c, helloOf2(a.hello)) || !a.ask(*c, readyOf2(), pingOf2()) {
		(*c).end()
		*c = nil
	}
	return false
}
