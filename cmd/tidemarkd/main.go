// Tidemarkd is the server: it takes batches from collectors over TCP, writes them to a sink, and acknowledges them when
// they are safe. Run it without flags to write to ./tidemark-out.log; `tidemarkd --help` tells of the flags.
//
// It logs JSON lines to standard error; the one with the message "listening" means that connections are accepted. It
// exits with 0 after a clean end, 1 when it failed, and 2 on wrong usage or configuration.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/tidemark/tidemark/cmd/internal/version"
	"github.com/tidemark/tidemark/config"
)

const (
	exitClean  = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	signal.Ignore(syscall.SIGPIPE) // a reader of standard output that went away is an error of the sink
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, signals))
}

func run(args []string, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	options, err := config.ParseServer(args, stdout, version.String())
	if err == nil {
		p := &process{options: options, log: slog.New(slog.NewJSONHandler(stderr, nil)), signals: signals, stdout: stdout, stderr: stderr}
		err = p.run()
	}
	var usage *config.UsageError
	switch {
	case err == nil, errors.Is(err, config.ErrPrinted):
		return exitClean
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "tidemarkd: %v\n", usage)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "tidemarkd: %v\n", err)
		return exitFailed
	}
}
