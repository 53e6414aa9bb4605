package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// warmUp is the time before anything is counted.
const warmUp = time.Second

// A Figure is what one peer did in one round.
type Figure struct {
	RecordsPerSecond float64 `json:"records_per_second"`
	ServerCPUSeconds float64 `json:"server_cpu_seconds"` // while records were counted, all cores together
	LoadCPUSeconds   float64 `json:"load_cpu_seconds"`   // of this process in the same time
	CPUPerMillion    float64 `json:"server_cpu_seconds_per_million_records"`
	PeakMemory       int64   `json:"server_peak_memory_bytes"`
	HalfRate         float64 `json:"half_rate_records_per_second"`     // what was offered for the latencies
	HalfAchieved     float64 `json:"half_achieved_records_per_second"` // what was acknowledged of it
	P50              float64 `json:"ack_p50_ms"`
	P99              float64 `json:"ack_p99_ms"`
	Acknowledgements int     `json:"latencies_measured"`
}

// measureRound runs a peer at full rate, and then a fresh server of it at half of that.
func measureRound(ctx context.Context, s *Settings, p Peer) (*Figure, error) {
	f := &Figure{}
	err := withLoad(ctx, s, p, newLoad(s, 0), func(ctx context.Context, server Server, l *Load) error {
		return f.countFull(ctx, s.Time, server.Process(), l)
	})
	if err != nil {
		return nil, fmt.Errorf("%s at full rate: %w", p.Name(), err)
	}
	if f.RecordsPerSecond == 0 {
		return nil, fmt.Errorf("%s acknowledged nothing in %v", p.Name(), s.Time)
	}
	f.HalfRate = f.RecordsPerSecond / 2
	half := newLoad(s, f.HalfRate)
	err = withLoad(ctx, s, p, half, func(ctx context.Context, _ Server, l *Load) error {
		return f.countHalf(ctx, max(time.Second, s.Time/3), l)
	})
	if err != nil {
		return nil, fmt.Errorf("%s at half rate: %w", p.Name(), err)
	}
	return f, f.latencies(half)
}

// withLoad runs f while a load runs against a fresh server, and removes everything afterwards.
func withLoad(ctx context.Context, s *Settings, p Peer, l *Load, f func(context.Context, Server, *Load) error) error {
	dir, err := os.MkdirTemp(s.Dir, "bench-"+p.Name()+"-")
	if err != nil {
		return err
	}
	defer settle(dir)
	server, err := p.Start(ctx, dir)
	if err != nil {
		return err
	}
	defer server.Process().Kill()
	runtime.GC()
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.run(ctx, server, nil); err != nil {
			cancel(server.Process().trouble(err))
		}
	}()
	err = f(ctx, server, l)
	cancel(errFinished)
	<-ended
	if cause := context.Cause(ctx); !errors.Is(cause, errFinished) {
		return cause
	}
	return err
}

// settle removes a folder, and lets the disk finish what that and the writes before it made.
func settle(dir string) {
	os.RemoveAll(dir)
	unix.Sync()
}

// countFull counts at full rate.
func (f *Figure) countFull(ctx context.Context, long time.Duration, server *Process, l *Load) error {
	if !pause(ctx, nil, warmUp) {
		return ctx.Err()
	}
	cpu, err := server.CPU()
	if err != nil {
		return err
	}
	self, begin, before := ownCPU(), time.Now(), l.acknowledged()
	if !pause(ctx, nil, long) {
		return ctx.Err()
	}
	records, elapsed := float64(l.acknowledged()-before), time.Since(begin).Seconds()
	cpu2, err := server.CPU()
	if err != nil {
		return err
	}
	f.RecordsPerSecond = records / elapsed
	f.ServerCPUSeconds = (cpu2 - cpu).Seconds()
	f.LoadCPUSeconds = (ownCPU() - self).Seconds()
	f.CPUPerMillion = f.ServerCPUSeconds / max(records, 1) * 1e6
	f.PeakMemory, err = server.PeakMemory()
	return err
}

// countHalf lets the load keep the latencies for a time.
func (f *Figure) countHalf(ctx context.Context, long time.Duration, l *Load) error {
	if !pause(ctx, nil, warmUp) {
		return ctx.Err()
	}
	begin, before := time.Now(), l.acknowledged()
	l.counting.Store(true)
	if !pause(ctx, nil, long) {
		return ctx.Err()
	}
	l.counting.Store(false)
	f.HalfAchieved = float64(l.acknowledged()-before) / time.Since(begin).Seconds()
	return nil
}

// latencies takes what the load kept, after its end.
func (f *Figure) latencies(l *Load) error {
	var all []time.Duration
	for _, c := range l.collectors {
		all = append(all, c.latencies...)
	}
	if len(all) == 0 {
		return errors.New("no batch was acknowledged at half rate")
	}
	f.P50, f.P99 = percentiles(all)
	f.Acknowledgements = len(all)
	return nil
}

// percentiles are the 50th and the 99th in milliseconds. It sorts what it is given, which is not empty.
func percentiles(all []time.Duration) (p50, p99 float64) {
	slices.Sort(all)
	at := func(part float64) float64 {
		return float64(all[int(part*float64(len(all)-1))]) / float64(time.Millisecond)
	}
	return at(0.50), at(0.99)
}

// ownCPU is the user and system time of this process.
func ownCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // the only errors are a wrong address and a wrong first argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
