// Crash kills tidemarkd with SIGKILL at random instants under real load, again and again on the same data directory, and
// then looks whether the output file holds each record exactly once and in order: `make crash ROUNDS=100`.
//
// With -both the collectors are processes with a buffer on disk, and are killed as well.
//
// With -forget the collectors are agents that forget a record on RECEIVED and never ask COMMIT, as shipped EdgeSocket
// agents do (P15), and the server runs with --received durable.
//
// It ends with exit code 0 when nothing was lost, doubled or out of order, and with 1 and the command that repeats the
// run otherwise. Kill instants depend on the machine, so a seed repeats the plan of a run, not every interleaving.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidemark/tidemark/internal/daemon"
)

func main() {
	beChild()
	r := run{out: os.Stdout}
	flag.IntVar(&r.rounds, "rounds", 10, "SIGKILLs")
	flag.Uint64Var(&r.seed, "seed", rand.Uint64(), "plan of the run")
	flag.IntVar(&r.collectors, "collectors", 4, "collectors that send at once")
	flag.IntVar(&r.dialect, "dialect", 2, "of the collectors that wait for ACK, 1 or 2")
	flag.BoolVar(&r.both, "both", false, "the collectors are processes with a disk buffer, and are killed too")
	flag.BoolVar(&r.forget, "forget", false, "the collectors forget on RECEIVED, against --received durable")
	flag.Parse()
	if r.rounds < 1 || r.collectors < 1 || r.dialect < 1 || r.dialect > 2 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "crash: -rounds and -collectors must be at least 1, -dialect 1 or 2, and there are no arguments")
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := r.all(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "crash: %v\nrepeat with: %s\n", err, r.command())
		os.Exit(1)
	}
}

// all builds the server, crashes it in a temporary folder, and removes that unless something was wrong.
func (r *run) all(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tidemark-crash-")
	if err != nil {
		return err
	}
	if err := daemon.Build(ctx, dir); err != nil {
		return err
	}
	if err := r.in(ctx, dir, dir); err != nil {
		return fmt.Errorf("%w (files are kept in %s)", err, dir)
	}
	return os.RemoveAll(dir)
}

func (r *run) command() string {
	text := fmt.Sprintf("go run ./internal/crash -rounds %d -seed %d -collectors %d -dialect %d", r.rounds, r.seed, r.collectors, r.dialect)
	switch {
	case r.forget:
		text += " -forget"
	case r.both:
		text += " -both"
	}
	return text
}

// run is a plan, and what became of it.
type run struct {
	rounds, collectors, dialect int
	seed                        uint64
	forget, both                bool
	out                         io.Writer
}

// in makes the run with programs from one folder and files in another.
func (r *run) in(ctx context.Context, programs, dir string) error {
	begin := time.Now()
	fmt.Fprintf(r.out, "seed %d\n", r.seed)
	l := newLoad(r, dir)
	if err := l.crash(ctx, programs); err != nil {
		return err
	}
	found, err := l.check()
	if err != nil {
		return err
	}
	if r.both {
		fmt.Fprintf(r.out, "collectors killed %d times\n", l.kills())
	}
	fmt.Fprintf(r.out, "rounds %d records %d acknowledged %d in file %d lost %d duplicated %d out of order %d seed %d seconds %.1f\n",
		r.rounds, l.records(), l.acknowledged(), found.records, found.lost, found.duplicated, found.disordered, r.seed, time.Since(begin).Seconds())
	if bad := found.lost + found.duplicated + found.disordered; bad > 0 || found.records != l.records() || l.records() == 0 {
		return fmt.Errorf("the output file is not what was sent")
	}
	return nil
}
