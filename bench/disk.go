package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// diskTime is how long the disk alone is measured in a round.
const diskTime = time.Second

// A Disk is how long one append of a batch's bytes and fdatasync take, with nothing else of this run beside it: the floor under all
// latencies.
type Disk struct {
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Syncs int     `json:"syncs"`
}

func measureDisk(ctx context.Context, s *Settings) (*Disk, error) {
	dir, err := os.MkdirTemp(s.Dir, "bench-disk-")
	if err != nil {
		return nil, err
	}
	defer settle(dir)
	file, err := os.Create(filepath.Join(dir, "disk.log"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text := []byte(strings.Repeat("x", s.Batch*(s.Size+1)))
	var all []time.Duration
	for begin := time.Now(); len(all) == 0 || time.Since(begin) < diskTime; {
		start := time.Now()
		if _, err := file.Write(text); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return nil, err
		}
		all = append(all, time.Since(start))
	}
	d := &Disk{Syncs: len(all)}
	d.P50, d.P99 = percentiles(all)
	return d, ctx.Err()
}
