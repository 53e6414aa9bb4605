package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark/tidemark/internal/daemon"
)

const (
	kills    = 3
	name     = "demo"
	token    = "token-of-the-demo"
	pollTime = 2 * time.Millisecond
)

// demo is one run in a temporary folder.
type demo struct {
	dir    string
	out    io.Writer
	server *daemon.Process
	input  input
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) output() string { return filepath.Join(d.dir, "out.log") }

func (d *demo) run(ctx context.Context) (err error) {
	d.say("Building tidemarkd and tidemark ...")
	if err := daemon.Build(ctx, d.dir); err != nil {
		return err
	}
	if d.input, err = readInput(ctx, "net", "crypto"); err != nil {
		return err
	}
	d.say("To be sent: %d lines of %d files, %d bytes, the longest line has %d bytes.",
		d.input.lines, len(d.input.files), d.input.bytes, d.input.longest)
	if err := d.start("127.0.0.1:0"); err != nil {
		return err
	}
	defer func() { d.server.Kill() }()
	d.say("tidemarkd listens on %s and writes to %s.", d.server.Address, d.output())
	summary, err := d.send(ctx)
	if err != nil {
		return err
	}
	d.say("tidemark send ended: %d records, %d acknowledged, %d sent again, %d reconnects, %.1fs.",
		summary.Records, summary.Acknowledged, summary.Resent, summary.Reconnects, summary.Seconds)
	if err := d.server.Stop(); err != nil {
		return err
	}
	d.say("tidemarkd was stopped with SIGTERM. Comparing the bytes ...")
	return d.verdict(summary)
}

// start runs the server on the same data directory and output file as before.
func (d *demo) start(address string) (err error) {
	d.server, err = daemon.Start(d.dir, "--listen", address, "--http", "127.0.0.1:0", "--data-dir", filepath.Join(d.dir, "data"),
		"--sink", "file:"+d.output(), "--token", name+"="+token, "--bind-retries", "100", "--bind-interval", "50ms")
	return err
}

// summary is what `tidemark send --json` ends with.
type summary struct {
	Records, Acknowledged, Sent, Resent, Reconnects uint64
	Seconds                                         float64
}

// send runs `tidemark send`, and kills the server under it.
func (d *demo) send(ctx context.Context) (summary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := []string{"send", "--to", d.server.Address, "--collector", name, "--token", token,
		"--buffer", filepath.Join(d.dir, "buffer"), "--retry-min", "10ms", "--json"}
	cmd := exec.CommandContext(ctx, filepath.Join(d.dir, "tidemark"), append(args, d.input.files...)...)
	var said strings.Builder
	cmd.Stderr = &said
	d.say("$ tidemark send --to %s --collector %s --token ... --json FILE...", d.server.Address, name)
	var text []byte
	ended := make(chan error, 1)
	go func() {
		var err error
		text, err = cmd.Output()
		ended <- err
	}()
	for i := range kills {
		if err := d.killAt(ctx, int64(d.input.bytes)*int64(i+1)/(kills+1), ended); err != nil {
			return summary{}, fmt.Errorf("%w\n%s", err, said.String())
		}
	}
	if err := <-ended; err != nil {
		return summary{}, fmt.Errorf("tidemark send: %w\n%s", err, said.String())
	}
	var s summary
	return s, json.Unmarshal(text, &s)
}

// killAt kills the server when its output has reached a size, and starts it again.
func (d *demo) killAt(ctx context.Context, size int64, ended <-chan error) error {
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		info, err := os.Stat(d.output())
		if err != nil {
			return err
		}
		if info.Size() >= size {
			d.server.Kill()
			d.say("SIGKILL to tidemarkd after it had written %d bytes, and a new start.", info.Size())
			return d.start(d.server.Address)
		}
		select {
		case <-tick.C:
		case err := <-ended:
			return fmt.Errorf("tidemark send ended before all kills: %v", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// verdict prints the last line.
func (d *demo) verdict(s summary) error {
	f, err := os.Open(d.output())
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := compare(d.input, f)
	if err != nil {
		return err
	}
	word := "identical"
	if !c.identical {
		word = "DIFFERENT"
	}
	d.say("records %d acknowledged %d in file %d lost %d duplicated %d %s",
		d.input.lines, s.Acknowledged, c.lines, c.lost, c.duplicated, word)
	if !c.identical || s.Acknowledged != d.input.lines {
		return fmt.Errorf("the output file is not what was sent")
	}
	return nil
}
