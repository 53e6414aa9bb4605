package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// Settings are what all peers have in common.
type Settings struct {
	Collectors int           `json:"collectors"`
	Batch      int           `json:"records_of_a_batch"`
	Size       int           `json:"bytes_of_a_record"`
	Window     int           `json:"batches_on_their_way_a_collector"`
	Time       time.Duration `json:"nanoseconds_of_a_measurement"`
	Rounds     int           `json:"rounds"`
	Kill       bool          `json:"kill"`
	Dir        string        `json:"-"`
	Machine    string        `json:"machine"`
}

// options are the settings and what is done with the figures.
type options struct {
	Settings
	peers, json, svg string
}

func main() {
	var err error
	if len(os.Args) > 2 && os.Args[1] == serveWord {
		err = serve(os.Args[2:])
	} else {
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		err = command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

// parse reads the flags. What is wrong was said on progress.
func parse(args []string, progress io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.IntVar(&o.Collectors, "collectors", 16, "collectors that send at once")
	flags.IntVar(&o.Batch, "batch", 100, "records of a batch")
	flags.IntVar(&o.Size, "size", 256, "bytes of a record")
	flags.IntVar(&o.Window, "window", 32, "batches on their way, a collector")
	seconds := flags.Float64("seconds", 30, "time of a measurement at full rate, after 1 s of warm-up; a third of it at half rate")
	flags.IntVar(&o.Rounds, "rounds", 5, "rounds; in each, every peer has its turn")
	flags.StringVar(&o.peers, "peers", allPeers, "what is compared, in this order")
	flags.BoolVar(&o.Kill, "kill", false, "kill the servers in mid-load and count, instead of measuring speed")
	flags.StringVar(&o.json, "json", "", "file for all figures of all rounds")
	flags.StringVar(&o.svg, "svg", "", "file for a plot of the medians")
	flags.StringVar(&o.Dir, "dir", os.TempDir(), "folder on the disk that is measured; tmpfs measures memory")
	if err := flags.Parse(args); err != nil {
		return nil, errUsage
	}
	o.Time = time.Duration(*seconds * float64(time.Second))
	o.Machine = fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if o.Collectors < 1 || o.Collectors > 9999 || o.Batch < 1 || o.Window < 1 || o.Rounds < 1 || o.Time <= 0 ||
		o.Size < smallestRecord || flags.NArg() > 0 || o.Kill && o.svg != "" {
		fmt.Fprintf(progress, "bench: -collectors must be 1 to 9999, -size at least %d, all other numbers above 0; -svg is not for -kill; there are no arguments\n", smallestRecord)
		return nil, errUsage
	}
	return o, nil
}

// command is the whole program but for its servers.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	debug.SetGCPercent(400) // the load generator should not be what bounds a peer
	programs, err := os.MkdirTemp("", "bench-programs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	peers, err := peersOf(&o.Settings, o.peers, programs)
	if err != nil {
		return err
	}
	if strings.Contains(o.peers, "tidemark") {
		if err := buildTidemark(ctx, programs); err != nil {
			return err
		}
	}
	report, failed := compare(ctx, &o.Settings, peers, progress)
	if report == nil {
		return failed
	}
	return errors.Join(failed, publish(report, o, out))
}

// publish prints the table, and writes the files that were asked for.
func publish(r *Report, o *options, out io.Writer) error {
	if _, err := io.WriteString(out, r.table()); err != nil {
		return err
	}
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.svg != "" {
		return os.WriteFile(o.svg, r.plot(), 0o644)
	}
	return nil
}
