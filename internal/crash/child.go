package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/tidemark/tidemark/collector"
)

// childVariable makes this program one collector with a disk buffer, which the run kills too. Its value is a child as JSON.
const childVariable = "TIDEMARK_CRASH_CHILD"

// child is what a collector process has to know.
type child struct {
	Address, Buffer            string
	Index, Collectors, Dialect int
	Seed                       uint64
}

// beChild does what the variable says, if it is set, and ends the process.
func beChild() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var c child
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.send(context.Background(), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "collector:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// send goes on where the buffer ends, and says after each Send how many records there are. When its input ends it waits
// for all acknowledgements.
func (c child) send(ctx context.Context, in io.Reader, out io.Writer) error {
	a := newLoad(&run{seed: c.Seed, collectors: c.Collectors}, "").agents[c.Index]
	journal, err := collector.OpenJournal(c.Buffer, collector.JournalOptions{SegmentBytes: 64 << 10})
	if err != nil {
		return err
	}
	made, _ := strconv.ParseUint(cmp.Or(string(journal.Source()), "0"), 10, 64)
	client, err := collector.Dial(ctx, collector.Options{
		Address: c.Address, Collector: a.name(), Token: a.token(), Dialect: c.Dialect, Journal: journal, Window: 1 + c.Index*300%1024,
		Backoff: collector.Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond},
	})
	if err != nil {
		return errors.Join(err, journal.Close())
	}
	defer client.Close()
	stop := make(chan struct{})
	go func() { defer close(stop); io.Copy(io.Discard, in) }()
	for going := true; going; {
		fmt.Fprintln(out, made)
		var records [][]byte
		for range 1 + made%20 {
			records = append(records, a.record(made+uint64(len(records))+1))
		}
		next := made + uint64(len(records))
		if _, err := client.SendFrom(ctx, strconv.AppendUint(nil, next, 10), records...); err != nil {
			return err
		}
		made = next
		select {
		case <-stop:
			going = false
		default:
		}
	}
	fmt.Fprintln(out, made)
	return client.Flush(ctx)
}

// supervise runs this agent as a process, and kills it at random instants until the run stops.
func (a *agent) supervise(ctx context.Context) error {
	random := rand.New(rand.NewPCG(a.load.run.seed, uint64(a.index)+1))
	for {
		last, err := a.life(ctx, time.Duration(random.ExpFloat64()*float64(80*time.Millisecond)))
		if last || err != nil {
			return err
		}
		a.kills.Add(1)
	}
}

// life is one process. It is killed when its time is over; if the run stops before, it ends by itself.
func (a *agent) life(ctx context.Context, span time.Duration) (last bool, err error) {
	plan, err := json.Marshal(child{
		a.load.relay.address(), a.buffer(), a.index, a.load.run.collectors, a.load.run.dialect, a.load.run.seed,
	})
	if err != nil {
		return false, err
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childVariable+"="+string(plan))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-a.load.stop:
			in.Close()
		case <-time.After(span):
			cmd.Process.Kill()
		case <-ended:
		}
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		made, _ := strconv.ParseUint(lines.Text(), 10, 64)
		a.made.Store(made)
	}
	err = cmd.Wait()
	close(ended)
	if err == nil {
		a.acked.Store(a.made.Load())
		return true, nil
	}
	if cmd.ProcessState.ExitCode() == -1 && ctx.Err() == nil { // by the signal
		return false, nil
	}
	return false, fmt.Errorf("%s: %w", a.name(), cmp.Or(ctx.Err(), err))
}
