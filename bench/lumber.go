package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"path/filepath"
	"sync"

	lumber "github.com/elastic/go-lumber/client/v2"
	"github.com/elastic/go-lumber/lj"
	lumberlog "github.com/elastic/go-lumber/log"
	lumberserver "github.com/elastic/go-lumber/server/v2"
)

// lumberPeer is Lumberjack version 2, as Beats and Logstash speak it, with a server that appends and fdatasyncs.
// The JSON around a record is not parsed, on either side: any real server has more to do.
type lumberPeer struct{ settings *Settings }

func (p *lumberPeer) Name() string { return "lumber" }

func (p *lumberPeer) Durability() string {
	return "go-lumber's server; append, fdatasync for all that waited, then ACK; the library hands out one batch a connection at a time"
}

func (p *lumberPeer) Missing() string { return "" }

func (p *lumberPeer) Start(ctx context.Context, dir string) (Server, error) {
	path := filepath.Join(dir, "lumber.log")
	process, err := launchSelf(ctx, "lumber", path)
	return &lumberServer{fileServer{process, path}, p.settings}, err
}

type lumberServer struct {
	fileServer
	settings *Settings
}

func (s *lumberServer) Connect(ctx context.Context, _ int, _ uint64) (Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.process.Address)
	if err != nil {
		return nil, err
	}
	c := &lumberConn{conn: conn, batch: uint64(s.settings.Batch), answers: make(chan error, 1), over: make(chan struct{})}
	c.client, err = lumber.NewAsyncClientWithConn(conn, s.settings.Window, lumber.JSONEncoder(c.encode), lumber.CompressionLevel(0))
	return c, err
}

type lumberConn struct {
	conn    net.Conn
	answers chan error    // one for each batch: nil is an acknowledgement
	over    chan struct{} // closed when nobody waits for answers any more
	batch   uint64
	records uint64
	text    []byte

	mu     sync.Mutex // the client must not be closed while it sends
	client *lumber.AsyncClient
	closed bool
	events []any
}

const (
	eventStart = `{"message":"`
	eventEnd   = `"}`
)

// encode makes the JSON of a record; the client copies it at once.
func (c *lumberConn) encode(event any) ([]byte, error) {
	c.text = append(c.text[:0], eventStart...)
	c.text = append(c.text, *event.(*[]byte)...)
	return append(c.text, eventEnd...), nil
}

func (c *lumberConn) Send(b *Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.events = c.events[:0]
	for i := range b.Records {
		c.events = append(c.events, &b.Records[i])
	}
	return c.client.Send(c.answered, c.events)
}

// answered may be called even after the client was closed.
func (c *lumberConn) answered(_ uint32, err error) {
	select {
	case c.answers <- err:
	case <-c.over:
	}
}

func (c *lumberConn) Acknowledged() (uint64, error) {
	select {
	case err := <-c.answers:
		if err == nil {
			c.records += c.batch
		}
		return c.records, err
	case <-c.over:
		return c.records, net.ErrClosed
	}
}

// Close ends the connection. Answers that nobody waits for are taken here, so that the client can end.
func (c *lumberConn) Close() error {
	err := c.conn.Close()
	go func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		c.client.Close()
		close(c.over)
	}()
	for {
		select {
		case <-c.answers:
		case <-c.over:
			return err
		}
	}
}

func serveLumber(path string) error {
	lumberlog.Logger = stdlog.New(io.Discard, "", 0)
	log, err := openAppendLog(path, false)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	batches := make(chan *lj.Batch)
	if _, err := lumberserver.NewWithListener(listener, lumberserver.JSONDecoder(decodeEvent), lumberserver.Channel(batches)); err != nil {
		return err
	}
	fmt.Println("listening", listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- log.run() }()
	for {
		select {
		case err := <-failed:
			return err
		case b := <-batches:
			var lines [][]byte
			for _, event := range b.Events {
				lines = append(lines, event.([]byte))
			}
			log.add(b.ACK, lines...)
		}
	}
}

// decodeEvent takes the record out of its JSON, as a line.
func decodeEvent(text []byte, event any) error {
	if len(text) < len(eventStart)+len(eventEnd) {
		return errors.New("not an event of this program")
	}
	line := make([]byte, 0, len(text))
	line = append(line, text[len(eventStart):len(text)-len(eventEnd)]...)
	*event.(*any) = append(line, '\n')
	return nil
}
