package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
)

// barePeer is the least that a server can do: take bytes, append them, fdatasync, and tell how many batches that were.
// It has no names, no numbers, and recognises nothing that comes twice. It is the ceiling for the others.
type barePeer struct {
	settings *Settings
	lying    bool
}

func (p *barePeer) Name() string {
	if p.lying {
		return "lying"
	}
	return "bare"
}

func (p *barePeer) Durability() string {
	if p.lying {
		return "none: acknowledges before it writes"
	}
	return "append, fdatasync for all that waited, then acknowledge; a length before each batch is its whole protocol"
}

func (p *barePeer) Missing() string { return "" }

func (p *barePeer) Start(ctx context.Context, dir string) (Server, error) {
	path := filepath.Join(dir, "bare.log")
	process, err := launchSelf(ctx, p.Name(), path)
	return &bareServer{fileServer{process, path}, uint64(p.settings.Batch)}, err
}

// fileServer is the part of a server that stores lines in one file.
type fileServer struct {
	process *Process
	path    string
}

func (s *fileServer) Process() *Process { return s.process }

func (s *fileServer) Read(_ context.Context, visit func([]byte)) error {
	return readLines(s.path, visit)
}

type bareServer struct {
	fileServer
	batch uint64
}

func (s *bareServer) Connect(ctx context.Context, _ int, _ uint64) (Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.process.Address)
	return &bareConn{Conn: conn, batch: s.batch}, err
}

type bareConn struct {
	net.Conn
	batch uint64
	out   []byte
}

func (c *bareConn) Send(b *Batch) error {
	c.out = binary.BigEndian.AppendUint32(c.out[:0], uint32(len(b.Text)))
	c.out = append(c.out, b.Text...)
	_, err := c.Write(c.out)
	return err
}

func (c *bareConn) Acknowledged() (uint64, error) {
	var batches [8]byte
	_, err := io.ReadFull(c.Conn, batches[:])
	return binary.BigEndian.Uint64(batches[:]) * c.batch, err
}

func serveBare(path string, lying bool) error {
	log, err := openAppendLog(path, lying)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening", listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- log.run() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				failed <- err
				return
			}
			go takeBare(conn, log)
		}
	}()
	return <-failed
}

// takeBare lives as long as one connection. What becomes durable meanwhile is told in one number.
func takeBare(conn net.Conn, log *appendLog) {
	defer conn.Close()
	var durable atomic.Uint64
	news := make(chan struct{}, 1)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		var total [8]byte
		for {
			select {
			case <-news:
				binary.BigEndian.PutUint64(total[:], durable.Load())
				if _, err := conn.Write(total[:]); err != nil {
					return
				}
			case <-ended:
				return
			}
		}
	}()
	done := func() {
		durable.Add(1)
		select {
		case news <- struct{}{}:
		default:
		}
	}
	in := bufio.NewReaderSize(conn, 256<<10)
	var text []byte
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(size[:]))
		if cap(text) < n {
			text = make([]byte, n)
		}
		if _, err := io.ReadFull(in, text[:n]); err != nil {
			return
		}
		log.add(done, text[:n])
	}
}
