package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
)

// redisPeer is Redis Streams. Each collector has a key of its own, and names each entry with its number, so that Redis
// refuses what comes twice.
type redisPeer struct{ settings *Settings }

func (p *redisPeer) Name() string { return "redis" }

func (p *redisPeer) Durability() string {
	return "appendonly yes, appendfsync always: synced once an event loop, then the reply; XADD pipelined, a key a collector, own ids; all is kept in memory"
}

func (p *redisPeer) Missing() string {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "redis-server is not installed: skipped"
	}
	return ""
}

func (p *redisPeer) Start(ctx context.Context, dir string) (Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	process, err := launch(nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "0")
	if err != nil {
		return nil, err
	}
	process.Address = "127.0.0.1:" + port
	s := &redisServer{process, p.settings}
	return s, process.until(ctx, func() error { return s.ping(ctx) })
}

type redisServer struct {
	process  *Process
	settings *Settings
}

func (s *redisServer) Process() *Process { return s.process }

// ping succeeds when all that was stored has been loaded.
func (s *redisServer) ping(ctx context.Context) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(appendCommand(nil, "PING")); err != nil {
		return err
	}
	return readReply(conn.in, func([]byte) {})
}

func (s *redisServer) dial(ctx context.Context) (*redisConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.process.Address)
	if err != nil {
		return nil, err
	}
	return &redisConn{Conn: conn, in: bufio.NewReaderSize(conn, 64<<10), batch: s.settings.Batch}, nil
}

func (s *redisServer) Connect(ctx context.Context, collector int, _ uint64) (Conn, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.key = streamOf(collector)
	return c, nil
}

type redisConn struct {
	net.Conn
	in      *bufio.Reader
	key     string
	out, id []byte
	batch   int
	records uint64
}

func (c *redisConn) Send(b *Batch) error {
	c.out = c.out[:0]
	for i, record := range b.Records {
		c.id = append(strconv.AppendUint(c.id[:0], b.First+uint64(i), 10), "-0"...)
		c.out = append(c.out, "*5\r\n$4\r\nXADD\r\n"...)
		c.out = appendBulk(c.out, c.key)
		c.out = appendBulk(c.out, c.id)
		c.out = append(c.out, "$1\r\nm\r\n"...)
		c.out = appendBulk(c.out, record)
	}
	_, err := c.Write(c.out)
	return err
}

// Acknowledged reads the replies of one batch. An entry that is there already is refused, and counts.
func (c *redisConn) Acknowledged() (uint64, error) {
	for range c.batch {
		if err := readReply(c.in, nil); err != nil && !bytes.Contains([]byte(err.Error()), []byte("equal or smaller")) {
			return c.records, err
		}
	}
	c.records += uint64(c.batch)
	return c.records, nil
}

func (s *redisServer) Read(ctx context.Context, visit func([]byte)) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := range s.settings.Collectors {
		for last := "-"; last != ""; {
			if _, err := conn.Write(appendCommand(nil, "XRANGE", streamOf(i), last, "+", "COUNT", "10000")); err != nil {
				return err
			}
			place, last2 := 0, ""
			err := readReply(conn.in, func(text []byte) { // of each entry: its id, the field's name, the record
				switch place % 3 {
				case 0:
					last2 = "(" + string(text) // from behind it
				case 2:
					visit(text)
				}
				place++
			})
			if err != nil {
				return err
			}
			last = last2
		}
	}
	return nil
}

func appendBulk[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(text)), 10)
	dst = append(dst, "\r\n"...)
	dst = append(dst, text...)
	return append(dst, "\r\n"...)
}

func appendCommand(dst []byte, words ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(words))
	for _, word := range words {
		dst = appendBulk(dst, word)
	}
	return dst
}

// readReply reads one reply, and visits the strings in it; visit may be nil. An error reply is an error.
func readReply(in *bufio.Reader, visit func([]byte)) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if len(line) < 3 {
		return fmt.Errorf("unreadable reply %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+', ':':
		return nil
	case '-':
		return errors.New(string(text))
	case '$', '*':
	default:
		return fmt.Errorf("unreadable reply %q", line)
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("unreadable reply %q", line)
	}
	if kind == '*' {
		for range n {
			if err := readReply(in, visit); err != nil {
				return err
			}
		}
		return nil
	}
	if visit == nil {
		_, err = in.Discard(n + 2)
		return err
	}
	bulk := make([]byte, n+2)
	if _, err := io.ReadFull(in, bulk); err != nil {
		return err
	}
	visit(bulk[:n])
	return nil
}
