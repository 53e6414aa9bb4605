package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	readyTime  = 60 * time.Second // how long a start may take: Redis reads all it holds
	mostOutput = 16 << 10         // bytes of a server's output that are kept
	serveWord  = "serve"          // first argument of this program when it is a server
)

// A Process is a server that was started.
type Process struct {
	Address string // for collectors

	cmd    *exec.Cmd
	ended  chan struct{}
	ready  chan string
	mu     sync.Mutex
	output []byte
}

// starts is where processes are started: in one thread that lives as long as this program. A server dies with the thread
// that started it (Pdeathsig), so that none is left behind when this program is killed or panics.
var starts = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// launch starts a program. Each line that it prints is handed to address until that finds where the server listens.
func launch(address func(line []byte) string, program string, args ...string) (*Process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(program, args...), ended: make(chan struct{}), ready: make(chan string, 1)}
	started := make(chan error)
	p.cmd.Stdout, p.cmd.Stderr = write, write
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	starts() <- func() { started <- p.cmd.Start() }
	err = <-started
	write.Close()
	if err != nil {
		read.Close()
		return nil, err
	}
	go p.follow(read, address)
	return p, nil
}

// follow reads what the process prints, and waits for its end.
func (p *Process) follow(output io.ReadCloser, address func([]byte) string) {
	defer close(p.ended)
	defer output.Close()
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadBytes('\n')
		p.mu.Lock()
		if len(p.output) < mostOutput {
			p.output = append(p.output, line...)
		}
		p.mu.Unlock()
		if address != nil {
			if a := address(bytes.TrimSpace(line)); a != "" {
				p.ready <- a
				address = nil
			}
		}
		if err != nil {
			break
		}
	}
	p.cmd.Wait() // how it ended shows in what it printed
}

// wait returns when the process has said where it listens.
func (p *Process) wait(ctx context.Context) error {
	select {
	case p.Address = <-p.ready:
		return nil
	case <-p.ended:
		return p.trouble(errors.New("ended before it was ready"))
	case <-ctx.Done():
		p.Kill()
		return ctx.Err()
	case <-time.After(readyTime):
		p.Kill()
		return p.trouble(errors.New("not ready in time"))
	}
}

// until returns when an attempt succeeds, for servers that don't say when they are ready.
func (p *Process) until(ctx context.Context, attempt func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return p.trouble(fmt.Errorf("ended before it was ready: %w", err))
		case <-ctx.Done():
			p.Kill()
			return p.trouble(fmt.Errorf("not ready in time: %w", err))
		}
	}
}

// trouble is an error with what the process printed.
func (p *Process) trouble(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%s: %w\n%s", p.cmd.Path, err, p.output)
}

// Kill ends the process with SIGKILL and waits for that. It is no error when it has ended already.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// CPU is the user and system time that the process used so far, all its threads.
func (p *Process) CPU() (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all common Linux machines
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field, the name, may hold anything but ends with the last parenthesis; utime and stime are 14 and 15.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, errors.Join(err, err2)
}

// PeakMemory is the most bytes of memory that the process held at one time (VmHWM).
func (p *Process) PeakMemory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("no VmHWM in /proc")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

// launchSelf starts this program as a server of the given kind, and waits until it listens.
func launchSelf(ctx context.Context, kind string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := launch(func(line []byte) string {
		address, _ := strings.CutPrefix(string(line), "listening ")
		if address == string(line) {
			return ""
		}
		return address
	}, self, append([]string{serveWord, kind}, args...)...)
	if err != nil {
		return nil, err
	}
	return p, p.wait(ctx)
}

// serve is what launchSelf runs. It returns only with an error.
func serve(args []string) error {
	kind, args := args[0], args[1:]
	switch kind {
	case "bare":
		return serveBare(args[0], false)
	case "lying":
		return serveBare(args[0], true)
	case "lumber":
		return serveLumber(args[0])
	case "nats":
		return serveNATS(args[0])
	}
	return fmt.Errorf("no server %q", kind)
}

// freePort is a port of the loopback address that was free a moment ago, for servers that can't choose one.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
