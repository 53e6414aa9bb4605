// Tidemark is the collector, and the operator's tool beside it: `tidemark send` sends files to an ingress and ends when
// every line is acknowledged; `tidemark streams`, `resume`, `forget` and `inspect` look at a server and help it on.
// `tidemark --help` tells of them.
//
// It exits with 0 when what was asked for is done, 1 when it failed, and 2 on wrong usage or configuration.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/tidemark/tidemark/cmd/internal/version"
	"github.com/tidemark/tidemark/config"
)

const (
	exitClean  = 0
	exitFailed = 1
	exitUsage  = 2
)

// grammar is the command line.
type grammar struct {
	Send    config.Send `cmd:"" help:"Send files, one record a line, and end when all is acknowledged."`
	Streams streams     `cmd:"" help:"Show the streams of a running server, and why a watermark waits."`
	Resume  resume      `cmd:"" help:"Give the sink of a halted stream another chance."`
	Forget  forget      `cmd:"" help:"Give up the numbers below N that a collector can't send any more."`
	Inspect inspect     `cmd:"" help:"Show the streams in a data directory, also while it is in use."`
	Version struct{}    `cmd:"" help:"Print the version."`
}

// program is what a command works with.
type program struct {
	in          io.Reader
	out, err    io.Writer
	signals     <-chan os.Signal
	interactive bool // somebody can be asked
	terminal    bool // somebody watches err
}

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	p := program{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, signals: signals,
		interactive: isTerminal(os.Stdin), terminal: isTerminal(os.Stderr),
	}
	os.Exit(p.run(os.Args[1:]))
}

func (p *program) run(args []string) int {
	err := p.command(args)
	var usage *config.UsageError
	switch {
	case err == nil, errors.Is(err, config.ErrPrinted):
		return exitClean
	case errors.As(err, &usage):
		fmt.Fprintf(p.err, "tidemark: %v\n", usage)
		return exitUsage
	default:
		fmt.Fprintf(p.err, "tidemark: %v\n", err)
		return exitFailed
	}
}

func (p *program) command(args []string) error {
	var g grammar
	parsed, err := config.Parse(&g, args, p.out, kong.Name("tidemark"),
		kong.Description("Sends records to a Tidemark server, and looks after its streams."))
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(parsed.Command(), " ")
	if name == "send" {
		if err := g.Send.Validate(); err != nil {
			return err
		}
		return p.send(&g.Send)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	switch name {
	case "streams":
		return g.Streams.run(ctx, p)
	case "resume":
		return g.Resume.run(ctx, p)
	case "forget":
		return g.Forget.run(ctx, p)
	case "inspect":
		return g.Inspect.run(p)
	default:
		_, err := fmt.Fprintln(p.out, version.String())
		return err
	}
}
