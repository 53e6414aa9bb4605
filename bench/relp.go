package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// relpPeer is rsyslog with imrelp. Its queue is Direct: with a queue in memory it answers 200 for what is only there.
type relpPeer struct{}

func (p *relpPeer) Name() string { return "relp" }

func (p *relpPeer) Durability() string {
	return `rsyslog, queue.type="Direct", omfile sync="on": each message synced, then 200; its default queue is in memory`
}

func (p *relpPeer) Missing() string {
	if _, err := exec.LookPath("rsyslogd"); err != nil {
		return "rsyslogd is not installed: skipped"
	}
	modules, err := filepath.Glob("/usr/lib*/*/rsyslog/imrelp.so")
	if more, err2 := filepath.Glob("/usr/lib*/rsyslog/imrelp.so"); len(modules)+len(more) == 0 || err != nil || err2 != nil {
		return "rsyslog's imrelp (package rsyslog-relp) is not installed: skipped"
	}
	return ""
}

const relpConfig = `global(workDirectory="%[1]s" maxMessageSize="64k")
module(load="imrelp")
main_queue(queue.type="Direct")
template(name="line" type="string" string="%%rawmsg%%\n")
ruleset(name="out" queue.type="Direct") {
  action(type="omfile" file="%[1]s/relp.log" template="line" sync="on" flushOnTXEnd="on" asyncWriting="off")
}
input(type="imrelp" address="127.0.0.1" port="%[2]s" ruleset="out" maxDataSize="64k")
`

func (p *relpPeer) Start(ctx context.Context, dir string) (Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "rsyslog.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, relpConfig, dir, port), 0o644); err != nil {
		return nil, err
	}
	pid := filepath.Join(dir, "rsyslog.pid")
	os.Remove(pid) // a killed one leaves it, and the next one would not start
	process, err := launch(nil, "rsyslogd", "-n", "-f", config, "-i", pid)
	if err != nil {
		return nil, err
	}
	process.Address = "127.0.0.1:" + port
	s := &relpServer{fileServer{process, filepath.Join(dir, "relp.log")}}
	return s, process.until(ctx, func() error {
		conn, err := s.Connect(ctx, 0, 0)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

type relpServer struct{ fileServer }

const relpOffer = "relp_version=0\nrelp_software=bench\ncommands=syslog"

// Connect opens a session: `open` must be answered before anything else is sent.
func (s *relpServer) Connect(ctx context.Context, _ int, _ uint64) (Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.process.Address)
	if err != nil {
		return nil, err
	}
	c := &relpConn{Conn: conn, in: bufio.NewReaderSize(conn, 64<<10), answered: 1, sent: 1}
	_, err = conn.Write(appendFrame(nil, 1, "open", []byte(relpOffer)))
	if err == nil {
		err = c.answer(1)
	}
	if err != nil {
		conn.Close()
	}
	return c, err
}

type relpConn struct {
	net.Conn
	in             *bufio.Reader
	out            []byte
	sent, answered uint64 // transactions; `open` is the first
	records        uint64
}

// appendFrame writes "TXNR COMMAND LENGTH DATA LF".
func appendFrame(dst []byte, transaction uint64, command string, data []byte) []byte {
	dst = strconv.AppendUint(dst, transaction, 10)
	dst = append(append(append(dst, ' '), command...), ' ')
	dst = strconv.AppendInt(dst, int64(len(data)), 10)
	return append(append(append(dst, ' '), data...), '\n')
}

// nextTransaction is the number behind n: after 999,999,999 comes 1.
func nextTransaction(n uint64) uint64 { return n%999_999_999 + 1 }

func (c *relpConn) Send(b *Batch) error {
	c.out = c.out[:0]
	for _, record := range b.Records {
		c.sent = nextTransaction(c.sent)
		c.out = appendFrame(c.out, c.sent, "syslog", record)
	}
	_, err := c.Write(c.out)
	return err
}

func (c *relpConn) Acknowledged() (uint64, error) {
	c.answered = nextTransaction(c.answered)
	err := c.answer(c.answered)
	if err == nil {
		c.records++
	}
	return c.records, err
}

// answer reads one frame: "TXNR rsp LENGTH DATA LF" with data that begins with 200.
func (c *relpConn) answer(transaction uint64) error {
	header, err := c.in.Peek(1)
	for n := 1; err == nil && bytes.Count(header, []byte{' '}) < 3 && header[len(header)-1] != '\n'; n++ {
		header, err = c.in.Peek(n)
	}
	if err != nil {
		return err
	}
	words := bytes.Fields(header)
	if len(words) != 3 || string(words[1]) != "rsp" || string(words[0]) != strconv.FormatUint(transaction, 10) {
		return fmt.Errorf("answer %q where that of %d was expected", header, transaction)
	}
	size, err := strconv.Atoi(string(words[2]))
	if err != nil {
		return err
	}
	if _, err := c.in.Discard(len(header)); err != nil {
		return err
	}
	data, err := c.in.Peek(size + 1)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(data, []byte("200")) {
		return fmt.Errorf("answer of %d: %q", transaction, data)
	}
	_, err = c.in.Discard(size + 1)
	return err
}
