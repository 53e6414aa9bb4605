package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Build compiles the programs into a folder, under their own names.
func Build(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator),
		"github.com/tidemark/tidemark/cmd/tidemarkd", "github.com/tidemark/tidemark/cmd/tidemark")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Process is a tidemarkd that was started.
type Process struct {
	Address string // for collectors
	HTTP    string // for operators

	cmd   *exec.Cmd
	mu    sync.Mutex
	log   bytes.Buffer
	ready chan struct{} // closed with the line that says "listening"
	ended chan struct{}
	err   error // of the process, valid when ended is closed
}

// startTime is how long a start may take.
const startTime = 30 * time.Second

// Launch runs tidemarkd from the folder of Build, and does not wait. Its standard output goes to stdout; nil: nowhere.
func Launch(stdout *os.File, dir string, args ...string) (*Process, error) {
	p := &Process{
		cmd:   exec.Command(filepath.Join(dir, "tidemarkd"), args...),
		ready: make(chan struct{}), ended: make(chan struct{}),
	}
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.follow(stderr)
	return p, nil
}

// Start runs tidemarkd and waits until it accepts connections. The error holds what it printed.
func Start(dir string, args ...string) (*Process, error) {
	p, err := Launch(nil, dir, args...)
	if err != nil {
		return nil, err
	}
	return p, p.Ready()
}

// Ready waits until connections are accepted. Otherwise the process is killed.
func (p *Process) Ready() error {
	select {
	case <-p.ready:
		return nil
	case <-p.ended:
		return fmt.Errorf("tidemarkd ended before it was ready: %v\n%s", p.err, p.Log())
	case <-time.After(startTime):
		p.Kill()
		return fmt.Errorf("tidemarkd was not ready within %v\n%s", startTime, p.Log())
	}
}

// follow reads standard error to its end, and then waits for the process.
func (p *Process) follow(stderr io.Reader) {
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadBytes('\n')
		p.mu.Lock()
		p.log.Write(line)
		p.mu.Unlock()
		p.understand(line)
		if err != nil {
			break
		}
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

// understand looks for the addresses.
func (p *Process) understand(line []byte) {
	var entry struct{ Msg, Address string }
	if json.Unmarshal(line, &entry) != nil {
		return
	}
	switch entry.Msg {
	case "http":
		p.HTTP = entry.Address
	case "listening":
		p.Address = entry.Address
		close(p.ready)
	}
}

// Log is what the process printed on standard error so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits for the end and yields the exit code, -1 after a signal that killed it.
func (p *Process) Wait() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// Kill ends the process with SIGKILL and waits for that. It is no error when it has ended already.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // fails only when it has ended
	<-p.ended
}

// Stop ends the process with SIGTERM. Any exit code but 0 is an error.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if code := p.Wait(); code != 0 {
		return fmt.Errorf("tidemarkd ended with exit code %d\n%s", code, p.Log())
	}
	return nil
}
