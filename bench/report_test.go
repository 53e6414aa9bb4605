package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// figures are two peers with known numbers, and one that did not run.
func figures(t *testing.T) *Report {
	s := settings(t)
	s.Rounds = 3
	ours := &Result{Name: "tidemark", Durability: "ours"}
	theirs := &Result{Name: "bare", Durability: "theirs"}
	disk := []*Disk{{P50: 1, P99: 7}, {P50: 3, P99: 8}, {P50: 2, P99: 9}}
	for i, x := range []float64{100_000, 300_000, 200_000} {
		ours.Rounds = append(ours.Rounds, &Figure{RecordsPerSecond: x, P50: 1, P99: float64(i), PeakMemory: 3 << 20})
		theirs.Rounds = append(theirs.Rounds, &Figure{RecordsPerSecond: 2 * x})
	}
	return &Report{Settings: s, Disk: disk, Peers: []*Result{ours, theirs, {Name: "relp", Skipped: "rsyslogd is not installed: skipped"}}}
}

func TestTable(t *testing.T) {
	text := figures(t).table()
	require.Contains(t, text, "| tidemark | 200000 (100000 to 300000) | 1.00 | 1.00 | 1.00 (0.00 to 2.00) | 0.00 | 0.00 | 3 |\n")
	require.Contains(t, text, "| bare | 400000 (200000 to 600000) | 0.50 | ")
	require.Contains(t, text, "| relp | rsyslogd is not installed: skipped |")
	require.Contains(t, text, "- bare: theirs\n")
	require.Contains(t, text, "p50 2.00 (1.00 to 3.00) ms, p99 8.00 (7.00 to 9.00) ms")
}

func TestPlot(t *testing.T) {
	text := figures(t).plot()
	decoder := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := decoder.Token(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	// From 100,000 to 1,000,000 are 480 pixels: log10(2) of them is 144, log10(4) is 289.
	require.Contains(t, string(text), `class="ours" x="90" y="40" width="144"`)
	require.Contains(t, string(text), `class="bar" x="90" y="72" width="289"`)
	require.Contains(t, string(text), ">400,000<")
	require.NotContains(t, string(text), "relp")
}

func TestSpread(t *testing.T) {
	require.Equal(t, Spread{Median: 2, Min: 1, Max: 9}, spreadOf([]float64{9, 1, 2}))
	require.Equal(t, Spread{Median: 2.5, Min: 1, Max: 9}, spreadOf([]float64{9, 1, 2, 3}))
}

func TestPercentiles(t *testing.T) {
	var all []time.Duration
	for i := range 101 {
		all = append(all, time.Duration(100-i)*time.Millisecond)
	}
	p50, p99 := percentiles(all)
	require.Equal(t, [2]float64{50, 99}, [2]float64{p50, p99})
}
