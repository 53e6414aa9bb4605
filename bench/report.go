package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Report is everything that was measured.
type Report struct {
	Settings *Settings `json:"settings"`
	Peers    []*Result `json:"peers"`
	Disk     []*Disk   `json:"disk,omitempty"` // one a round
}

// A Result is what one peer did in all rounds, in their order.
type Result struct {
	Name       string    `json:"name"`
	Durability string    `json:"durability"`
	Skipped    string    `json:"skipped,omitempty"` // why it has no figures: not installed, or it failed
	Rounds     []*Figure `json:"rounds,omitempty"`
	Kills      []*Kill   `json:"kills,omitempty"`
}

// compare gives every peer its turn in every round. A peer that fails is left out from then on, and its earlier figures
// with it: the table says so, and the error tells which ones did. The report is there even so.
func compare(ctx context.Context, s *Settings, peers []Peer, progress io.Writer) (r *Report, failed error) {
	r = &Report{Settings: s}
	for _, p := range peers {
		r.Peers = append(r.Peers, &Result{Name: p.Name(), Durability: p.Durability(), Skipped: p.Missing()})
	}
	for round := range s.Rounds {
		for i, p := range peers {
			result := r.Peers[i]
			if result.Skipped != "" {
				continue
			}
			if err := result.round(ctx, s, p, progress); ctx.Err() != nil {
				return nil, err
			} else if err != nil {
				failed = errors.Join(failed, fmt.Errorf("round %d: %w", round+1, err))
				result.Skipped, result.Rounds, result.Kills = fmt.Sprintf("failed in round %d", round+1), nil, nil
			}
		}
		if s.Kill {
			continue
		}
		disk, err := measureDisk(ctx, s)
		if err != nil {
			return nil, err
		}
		r.Disk = append(r.Disk, disk)
	}
	return r, failed
}

func (r *Result) round(ctx context.Context, s *Settings, p Peer, progress io.Writer) error {
	if s.Kill {
		k, err := killRound(ctx, s, p)
		if err != nil {
			return err
		}
		r.Kills = append(r.Kills, k)
		fmt.Fprintf(progress, "%d %s: %+v\n", len(r.Kills), r.Name, *k)
		return nil
	}
	f, err := measureRound(ctx, s, p)
	if err != nil {
		return err
	}
	r.Rounds = append(r.Rounds, f)
	fmt.Fprintf(progress, "%d %s: %.0f records/s, p50 %.2f ms, p99 %.2f ms\n", len(r.Rounds), r.Name, f.RecordsPerSecond, f.P50, f.P99)
	return nil
}

// A Spread is the median of all rounds and the ends.
type Spread struct{ Median, Min, Max float64 }

func (r *Result) spread(of func(*Figure) float64) Spread {
	var all []float64
	for _, f := range r.Rounds {
		all = append(all, of(f))
	}
	return spreadOf(all)
}

func spreadOf(all []float64) Spread {
	slices.Sort(all)
	n := len(all)
	return Spread{Median: (all[(n-1)/2] + all[n/2]) / 2, Min: all[0], Max: all[n-1]}
}

func (r *Report) disk(of func(*Disk) float64) Spread {
	var all []float64
	for _, d := range r.Disk {
		all = append(all, of(d))
	}
	return spreadOf(all)
}

func rate(f *Figure) float64 { return f.RecordsPerSecond }

// ratio is how many times the records a second of this peer the other one reached, round by round; false when the other
// did not run.
func (r *Result) ratio(other *Result) (Spread, bool) {
	if other == nil || len(other.Rounds) != len(r.Rounds) {
		return Spread{}, false
	}
	var all []float64
	for i, f := range r.Rounds {
		all = append(all, other.Rounds[i].RecordsPerSecond/f.RecordsPerSecond)
	}
	return spreadOf(all), true
}

func (r *Report) peer(name string) *Result {
	for _, p := range r.Peers {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// table is the report as Markdown.
func (r *Report) table() string {
	var b strings.Builder
	s := r.Settings
	fmt.Fprintf(&b, "%s; %d collectors, batches of %d records of %d B, at most %d batches on their way a collector",
		s.Machine, s.Collectors, s.Batch, s.Size, s.Window)
	if s.Kill {
		r.kills(&b)
	} else {
		r.figures(&b)
	}
	if len(r.Disk) > 0 {
		p50, p99 := r.disk(func(d *Disk) float64 { return d.P50 }), r.disk(func(d *Disk) float64 { return d.P99 })
		fmt.Fprintf(&b, "\nOne append of a batch and fdatasync on this disk, nothing else: p50 %s ms, p99 %s ms.\n", p50.text(2), p99.text(2))
	}
	b.WriteString("\nBefore an acknowledgement:\n\n")
	for _, p := range r.Peers {
		if p.Skipped != "" {
			fmt.Fprintf(&b, "- %s: %s\n", p.Name, p.Skipped)
		} else {
			fmt.Fprintf(&b, "- %s: %s\n", p.Name, p.Durability)
		}
	}
	return b.String()
}

func (r *Report) figures(b *strings.Builder) {
	fmt.Fprintf(b, "; %v a round, medians of %d rounds (lowest to highest). Latencies are at half the rate.\n\n", r.Settings.Time, r.Settings.Rounds)
	b.WriteString("| peer | records/s | tidemark : peer | ack p50, ms | ack p99, ms | server CPU, s | CPU s per million records | peak memory, MiB |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.Peers {
		if p.Skipped != "" {
			fmt.Fprintf(b, "| %s | %s | | | | | | |\n", p.Name, p.Skipped)
			continue
		}
		ratio := "-"
		if x, ok := p.ratio(r.peer("tidemark")); ok {
			ratio = x.text(2)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", p.Name, p.spread(rate).text(0), ratio,
			p.spread(func(f *Figure) float64 { return f.P50 }).text(2),
			p.spread(func(f *Figure) float64 { return f.P99 }).text(2),
			p.spread(func(f *Figure) float64 { return f.ServerCPUSeconds }).text(2),
			p.spread(func(f *Figure) float64 { return f.CPUPerMillion }).text(2),
			p.spread(func(f *Figure) float64 { return float64(f.PeakMemory) / (1 << 20) }).text(0))
	}
}

func (r *Report) kills(b *strings.Builder) {
	fmt.Fprintf(b, "; SIGKILL in mid-load, sums of %d rounds. The collectors then send again what was not acknowledged.\n\n", r.Settings.Rounds)
	b.WriteString("| peer | acknowledged before the kills | acknowledged at the end | found | lost | twice | damaged |\n|---|---|---|---|---|---|---|\n")
	for _, p := range r.Peers {
		if p.Skipped != "" {
			fmt.Fprintf(b, "| %s | %s | | | | | |\n", p.Name, p.Skipped)
			continue
		}
		var k Kill
		for _, one := range p.Kills {
			k.AtKill += one.AtKill
			k.Acknowledged += one.Acknowledged
			k.Found += one.Found
			k.Lost += one.Lost
			k.Twice += one.Twice
			k.Damaged += one.Damaged
		}
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d |\n", p.Name, k.AtKill, k.Acknowledged, k.Found, k.Lost, k.Twice, k.Damaged)
	}
}

// text is a spread with so many decimals.
func (s Spread) text(decimals int) string {
	if s.Min == s.Max {
		return fmt.Sprintf("%.*f", decimals, s.Median)
	}
	return fmt.Sprintf("%.*f (%.*f to %.*f)", decimals, s.Median, decimals, s.Min, decimals, s.Max)
}
