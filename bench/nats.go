package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsPeer is NATS JetStream with its file store, one replica. Each collector publishes to a stream of its own, so that
// no two wait for each other, and names what it publishes, so that the server recognises what comes twice.
type natsPeer struct {
	settings *Settings
	atomic   bool // a batch is one atomic publish, which the server syncs once, instead of once a message
}

func (p *natsPeer) Name() string {
	if p.atomic {
		return "nats-atomic"
	}
	return "nats"
}

func (p *natsPeer) Durability() string {
	const text = "JetStream file store, sync_interval always, then PubAck; published without waiting, Nats-Msg-Id set, a stream a collector; "
	if p.atomic {
		return text + "a batch is one atomic publish (Nats-Batch-Commit), synced once"
	}
	return text + "each message synced"
}

func (p *natsPeer) Missing() string { return "" }

func (p *natsPeer) Start(ctx context.Context, dir string) (Server, error) {
	process, err := launchSelf(ctx, "nats", dir)
	return &natsServer{process, p.settings, p.atomic}, err
}

func serveNATS(dir string) error {
	s, err := server.NewServer(&server.Options{
		ServerName: "bench", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: dir, SyncAlways: true, JetStreamMaxStore: 1 << 40,
		// The window of all collectors may be waiting: the server would refuse what is above these.
		StreamMaxBufferedMsgs: 1 << 20, StreamMaxBufferedSize: 1 << 30, MaxPending: 1 << 30,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(readyTime) {
		return errors.New("the NATS server did not become ready")
	}
	fmt.Println("listening", s.Addr())
	s.WaitForShutdown()
	return errors.New("the NATS server stopped")
}

type natsServer struct {
	process  *Process
	settings *Settings
	atomic   bool
}

func (s *natsServer) Process() *Process { return s.process }

func streamOf(collector int) string { return "c" + strconv.Itoa(collector) }

func (s *natsServer) Connect(ctx context.Context, collector int, acknowledged uint64) (Conn, error) {
	c := &natsConn{stream: streamOf(collector), base: acknowledged, step: 1,
		acks: make(chan uint64, 1), failed: make(chan error, 1)}
	if s.atomic {
		c.step = uint64(s.settings.Batch)
	}
	conn, err := nats.Connect("nats://"+s.process.Address, nats.NoReconnect(),
		nats.ClosedHandler(func(*nats.Conn) { c.fail(nats.ErrConnectionClosed) }))
	if err != nil {
		return nil, err
	}
	c.conn = conn
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	config := jetstream.StreamConfig{Name: c.stream, Subjects: []string{c.stream}, Storage: jetstream.FileStorage, AllowAtomicPublish: s.atomic}
	if _, err := js.CreateOrUpdateStream(ctx, config); err != nil {
		return nil, err
	}
	c.inbox = nats.NewInbox() + "."
	sub, err := conn.Subscribe(c.inbox+"*", c.take)
	if err != nil {
		return nil, err
	}
	return c, sub.SetPendingLimits(-1, -1)
}

type natsConn struct {
	conn          *nats.Conn
	stream, inbox string
	base          uint64 // records acknowledged when the connection began
	step          uint64 // records that one PubAck covers
	acked         uint64 // records, in order; only the subscription's goroutine uses it
	acks          chan uint64
	failed        chan error
}

func (c *natsConn) Send(b *Batch) error {
	msg := nats.Msg{Subject: c.stream, Header: nats.Header{}}
	first := strconv.FormatUint(b.First, 10)
	for i, record := range b.Records {
		number := strconv.FormatUint(b.First+uint64(i), 10)
		last := i == len(b.Records)-1
		msg.Reply, msg.Data = c.inbox+number, record
		if c.step == 1 {
			msg.Header[nats.MsgIdHdr] = []string{number}
		} else {
			msg.Header = nats.Header{"Nats-Batch-Id": {first}, "Nats-Batch-Sequence": {strconv.Itoa(i + 1)}}
			if i == 0 { // the batch is stored or refused as one: the name of its first message is enough
				msg.Header[nats.MsgIdHdr] = []string{first}
			}
			if last {
				msg.Header["Nats-Batch-Commit"] = []string{"1"}
			} else {
				msg.Reply = ""
			}
		}
		if err := c.conn.PublishMsg(&msg); err != nil {
			return err
		}
	}
	return nil // the library's own goroutine flushes
}

// take is called for each PubAck, in the order in which they come. A batch that is there already is refused, and counts.
func (c *natsConn) take(msg *nats.Msg) {
	number, err := strconv.ParseUint(msg.Subject[len(c.inbox):], 10, 64)
	want := c.base + c.acked + c.step
	refused := bytes.Contains(msg.Data, []byte(`"error"`)) && !bytes.Contains(msg.Data, []byte("contains duplicate message"))
	if err != nil || number != want || refused {
		c.fail(fmt.Errorf("PubAck for %s, expected for %d: %s", msg.Subject[len(c.inbox):], want, msg.Data))
		return
	}
	c.acked += c.step
	select { // the newest number replaces one that was not read
	case <-c.acks:
	default:
	}
	c.acks <- c.acked
}

func (c *natsConn) fail(err error) {
	select {
	case c.failed <- err:
	default:
	}
}

func (c *natsConn) Acknowledged() (uint64, error) {
	select {
	case n := <-c.acks:
		return n, nil
	case err := <-c.failed:
		return 0, err
	}
}

func (c *natsConn) Close() error {
	c.conn.Close()
	return nil
}

// Read asks the server, with a consumer that acknowledges nothing.
func (s *natsServer) Read(ctx context.Context, visit func([]byte)) error {
	conn, err := nats.Connect("nats://" + s.process.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := conn.JetStream()
	if err != nil {
		return err
	}
	for i := range s.settings.Collectors {
		info, err := js.StreamInfo(streamOf(i), nats.Context(ctx))
		if err != nil {
			return err
		}
		sub, err := js.SubscribeSync(streamOf(i), nats.OrderedConsumer())
		if err != nil {
			return err
		}
		for range info.State.Msgs {
			msg, err := sub.NextMsg(10 * time.Second)
			if err != nil {
				return err
			}
			visit(msg.Data)
		}
		if err := sub.Unsubscribe(); err != nil {
			return err
		}
	}
	return nil
}
