package collector

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// dialect is what a client needs of the core that it has. Ids are those that Send returns; what is on the wire is the
// dialect's own affair.
type dialect interface {
	unfit(records [][]byte) *BadRecord      // why they can't be sent
	batches(records [][]byte) []Batch       // what one Send becomes
	load(id uint64, b Batch) error          // brings a batch into memory
	roomy() bool                            // one more should be loaded
	connect(next uint64) []byte             // begins a connection
	take(buf []byte) (used int, err error)  // takes all whole messages, up to the first error
	unstored() (n Numbers, new bool)        // numbers that are to be stored before anything is sent
	stored()                                // they are
	bye() bool                              // asks for the end; false: there is nothing to wait for
	skip(id uint64)                         // gives up a batch that was refused
	anew(instance string)                   // numbers all that is held anew
	patience(d time.Duration) time.Duration // how long the next message may take; 0: for ever
	away() time.Duration                    // how long to stay away
	overdue() bool                          // the connection is of no use any more

	Send(dst []byte, now time.Time, size int) []byte
	Wake() (time.Time, bool)
	Waiting() bool
	Watermark() uint64
	Held() (batches int, bytes int64)
	Open() bool
	Stats() Stats
}

// lines is dialect 1: batches of one record.
type lines struct {
	*Core
	offset uint64 // what is added to an id; it may wrap
	token  string
}

func (l *lines) unfit(records [][]byte) *BadRecord {
	for i, record := range records {
		if len(record) > MaxRecord {
			return &BadRecord{i, "it has " + strconv.Itoa(len(record)) + " bytes, allowed are " + strconv.Itoa(MaxRecord)}
		}
		if at := bytes.IndexByte(record, '\n'); at >= 0 {
			return &BadRecord{i, "it holds an LF at byte " + strconv.Itoa(at) + ", which ends a record in dialect 1"}
		}
	}
	return nil
}

func (l *lines) batches(records [][]byte) []Batch {
	var list []Batch
	for _, record := range records {
		list = append(list, Batch{1, protocol.AppendRecord(nil, record)})
	}
	return list
}

func (l *lines) load(id uint64, b Batch) error {
	var record []byte
	for r, err := range protocol.Records(b.Payload) {
		if err != nil {
			return err
		}
		record = r
	}
	if b.Records != 1 || l.unfit([][]byte{record}) != nil {
		return fmt.Errorf("batch %d of the buffer has more records than one, or one that dialect 1 can't carry: send it with dialect 2", id)
	}
	l.Produce(record)
	return nil
}

func (l *lines) roomy() bool {
	held, bytes := l.Core.Held()
	return l.Open() && held < l.window.limit && (held == 0 || bytes < maxBytes)
}

func (l *lines) connect(uint64) []byte { return l.Connect(nil, l.token) }

func (l *lines) take(buf []byte) (used int, err error) {
	for err == nil {
		end := bytes.IndexByte(buf[used:], '\n')
		if end < 0 {
			break
		}
		var r protocol.Reply
		if r, err = protocol.ParseReply(buf[used : used+end]); err == nil {
			err = l.TakeReply(r, time.Now())
		}
		used += end + 1
	}
	if refused := (*Refused)(nil); errors.As(err, &refused) && refused.ID > 0 {
		refused.ID -= l.offset
	}
	return used, err
}

func (l *lines) unstored() (Numbers, bool) { return Numbers{}, false }
func (l *lines) stored()                   {}
func (l *lines) bye() bool                 { return false }
func (l *lines) skip(uint64)               {}
func (l *lines) anew(string)               {}
func (l *lines) away() time.Duration       { return 0 }
func (l *lines) overdue() bool             { return false }
func (l *lines) Watermark() uint64         { return l.Core.Watermark() - l.offset }

func (l *lines) patience(d time.Duration) time.Duration {
	if l.Waiting() {
		return d
	}
	return 0
}

// counted is dialect 2: batches of many records.
type counted struct {
	*Core2
	records int // of a batch, at most
	log     *slog.Logger
	parser  protocol.ReplyParser2
}

// MaxBatch is the largest payload of a batch in dialect 2, in bytes: its records, each with up to 5 bytes before it.
const MaxBatch = protocol.DefaultMaxBatch

const lengthBytes = 5 // before a record, at most

func (c *counted) unfit(records [][]byte) *BadRecord {
	for i, record := range records {
		if len(record) > MaxBatch-lengthBytes {
			return &BadRecord{i, "it has " + strconv.Itoa(len(record)) + " bytes, allowed are " + strconv.Itoa(MaxBatch-lengthBytes)}
		}
	}
	return nil
}

func (c *counted) batches(records [][]byte) (list []Batch) {
	for len(records) > 0 {
		n, size := 0, 0
		for ; n < min(len(records), c.records) && (n == 0 || size+len(records[n])+lengthBytes <= MaxBatch); n++ {
			size += len(records[n]) + lengthBytes
		}
		b := Batch{Records: n, Payload: make([]byte, 0, size)}
		for _, record := range records[:n] {
			b.Payload = protocol.AppendRecord(b.Payload, record)
		}
		list, records = append(list, b), records[n:]
	}
	return list
}

func (c *counted) load(id uint64, b Batch) error {
	c.Load(id, b)
	return nil
}

func (c *counted) roomy() bool { return c.Room() }

func (c *counted) connect(next uint64) []byte {
	c.parser = protocol.ReplyParser2{}
	return c.Connect(nil, next, time.Now())
}

func (c *counted) take(buf []byte) (used int, err error) {
	for {
		r, n, err := c.parser.Next(buf[used:])
		used += n
		if err != nil || r.Code == 0 {
			return used, err
		}
		if err := c.TakeReply(r, time.Now()); err != nil {
			return used, err
		}
		if r.Code == protocol.CodeWelcome && len(r.Welcome.Lost) > 0 {
			c.log.Error("the ingress gives up numbers that nobody holds any more: what was sent under them is lost", "numbers", r.Welcome.Lost)
		}
	}
}

func (c *counted) unstored() (Numbers, bool) { return c.Numbers(), c.Unstored() }
func (c *counted) stored()                   { c.Stored() }
func (c *counted) skip(id uint64)            { c.Skip(id) }
func (c *counted) anew(instance string)      { c.Anew(instance) }
func (c *counted) away() time.Duration       { return c.Away() }
func (c *counted) overdue() bool             { return c.Overdue(time.Now()) }
func (c *counted) Waiting() bool             { return true }

func (c *counted) bye() bool {
	c.Bye()
	return c.mode == modeLeaving
}

func (c *counted) patience(d time.Duration) time.Duration {
	if c.Open() {
		return c.Idle()
	}
	return d
}
