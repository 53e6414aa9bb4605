package server

import (
	"context"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// push is what a connection of dialect 2 is told without being asked. Of each only the newest is kept until the next
// write, so that a peer that reads slowly costs nothing.
type push struct {
	watermark uint64 // 0: nothing new
	batches   uint64 // of the window; 0: nothing new
	bytes     uint64
	bye       bool
}

// rest gives back a buffer that is not used.
func (o *outbox) rest() {
	o.writing <- struct{}{}
	defer func() { <-o.writing }()
	o.spare = nil
}

// say puts a message of dialect 2 behind the others; it is sent with the next flush.
func (o *outbox) say(r protocol.Reply2) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.append2(r)
}

// append2 is called with mu held. Nothing comes behind ERROR and BYE.
func (o *outbox) append2(r protocol.Reply2) {
	if o.last {
		return
	}
	o.last = r.Code == protocol.CodeError || r.Code == protocol.CodeBye
	o.counters.reply[r.Code].Inc()
	o.buf = protocol.AppendReply2(o.buf, r)
}

// push merges what is new into what the next flush sends, and sees to it that there is one.
func (o *outbox) push(p push) {
	o.mu.Lock()
	o.pushed.watermark = max(o.pushed.watermark, p.watermark)
	o.pushed.bye = o.pushed.bye || p.bye
	if p.batches > 0 {
		o.pushed.batches, o.pushed.bytes = p.batches, p.bytes
	}
	o.mu.Unlock()
	o.kick()
}

// send flushes what was said. What is only pushed has a goroutine of its own: the reader does not wait for a peer that
// reads its ACKs slowly.
func (o *outbox) send() error {
	o.mu.Lock()
	said, err := len(o.buf) > 0, o.err
	o.mu.Unlock()
	if !said || err != nil {
		return err
	}
	return o.flush()
}

// quiet is since when nothing was sent.
func (o *outbox) quiet() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.spoke
}

// kick flushes on a goroutine of its own, unless that is about to happen. When it fails the reader has to end.
func (o *outbox) kick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kicked {
		return
	}
	o.kicked = true
	go func() {
		if o.flush() != nil {
			o.conn.Close()
		}
	}()
}

// appendPushed is called with mu held.
func (o *outbox) appendPushed() {
	p := o.pushed
	o.pushed = push{}
	if p.watermark > 0 {
		o.append2(protocol.Reply2{Code: protocol.CodeAck, Watermark: p.watermark})
	}
	if p.batches > 0 {
		o.append2(protocol.Reply2{Code: protocol.CodeWindow, Batches: p.batches, Bytes: p.bytes})
	}
	if p.bye {
		o.append2(protocol.Reply2{Code: protocol.CodeBye})
	}
}

// bye says that the collector sends nothing more: it is answered when everything is acknowledged.
func (c *connection) bye() {
	st := c.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	c.left = true
	st.push()
}

// farewell tells the collector that the server stops, and waits for its last ACK.
func (c *connection) farewell(ctx context.Context) {
	c.goAway("the ingress stops")
	if c.out.flush() != nil || !c.ready {
		return
	}
	select {
	case <-c.server.settled:
	case <-ctx.Done():
	}
}

// startOver makes a collector of dialect 2 come again: by a new WELCOME it hears where the stream stands.
func (c *connection) startOver(why string) {
	c.goAway(why)
	c.finish()
}

// goAway asks the collector to come back later.
func (c *connection) goAway(why string) {
	c.out.say(protocol.Reply2{Code: protocol.CodeGoaway, Wait: c.server.options.RetryAfter, Text: why})
}
