package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the servers that it starts, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[2] == "starter" {
		fmt.Fprintln(os.Stderr, startAnother(os.Args[3]))
		os.Exit(1)
	}
	if len(os.Args) > 2 && os.Args[1] == serveWord {
		fmt.Fprintln(os.Stderr, serve(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func settings(t *testing.T) *Settings {
	return &Settings{Collectors: 2, Batch: 10, Size: 64, Window: 4, Time: 200 * time.Millisecond, Rounds: 1, Dir: t.TempDir()}
}

// TestCountsRight sends for a second, and compares what the collectors counted with what is stored. Peers that need a
// program of their own are tested where that is installed, as the run itself does.
func TestCountsRight(t *testing.T) {
	s := settings(t)
	programs := t.TempDir()
	require.NoError(t, buildTidemark(t.Context(), programs))
	peers, err := peersOf(s, allPeers, programs)
	require.NoError(t, err)
	for _, p := range peers {
		if missing := p.Missing(); missing != "" {
			t.Logf("%s: %s", p.Name(), missing)
			continue
		}
		t.Run(p.Name(), func(t *testing.T) {
			server, err := p.Start(t.Context(), t.TempDir())
			require.NoError(t, err)
			defer server.Process().Kill()
			l, stop := newLoad(s, 0), make(chan struct{})
			l.counting.Store(true)
			time.AfterFunc(time.Second, func() { close(stop) })
			require.NoError(t, l.run(t.Context(), server, stop))
			tally, sent, latencies := newTally(s.Collectors, s.Size), []uint64{}, 0
			for _, c := range l.collectors {
				require.Equal(t, c.sent.Load(), c.acked.Load())
				require.Positive(t, c.acked.Load())
				sent = append(sent, c.sent.Load()*uint64(s.Batch))
				latencies += len(c.latencies)
			}
			require.Equal(t, l.acknowledged(), uint64(latencies*s.Batch), "one latency a batch")
			require.NoError(t, server.Read(t.Context(), tally.add))
			found, lost, twice := tally.sums(sent)
			require.Equal(t, [4]uint64{l.acknowledged(), 0, 0, 0}, [4]uint64{found, lost, twice, tally.Damaged})
			cpu, err := server.Process().CPU()
			require.NoError(t, err)
			require.Positive(t, cpu)
			memory, err := server.Process().PeakMemory()
			require.NoError(t, err)
			require.Greater(t, memory, int64(1<<20))
		})
	}
}

// TestRate offers a rate, and sees that it is what was offered.
func TestRate(t *testing.T) {
	s := settings(t)
	server, err := (&barePeer{settings: s}).Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer server.Process().Kill()
	const perSecond = 1000
	l, stop := newLoad(s, perSecond), make(chan struct{})
	time.AfterFunc(time.Second, func() { close(stop) })
	require.NoError(t, l.run(t.Context(), server, stop))
	require.LessOrEqual(t, l.acknowledged(), uint64(perSecond+2*s.Collectors*s.Batch), "never more than is due")
	require.Positive(t, l.acknowledged())
}

// TestKill kills servers in mid-load. One that acknowledges before it writes must be found out.
func TestKill(t *testing.T) {
	s := settings(t)
	programs := t.TempDir()
	require.NoError(t, buildTidemark(t.Context(), programs))
	for _, p := range []Peer{&barePeer{settings: s}, &tidemarkPeer{settings: s, programs: programs}, &barePeer{settings: s, lying: true}} {
		t.Run(p.Name(), func(t *testing.T) {
			k, err := killRound(t.Context(), s, p)
			require.NoError(t, err)
			require.Positive(t, k.AtKill)
			require.GreaterOrEqual(t, k.Acknowledged, k.AtKill)
			require.Equal(t, k.Acknowledged, k.Found+k.Lost)
			require.Zero(t, k.Damaged)
			if p.Name() == "lying" {
				require.Positive(t, k.Lost)
			} else {
				require.Zero(t, k.Lost)
			}
			most := s.Collectors * s.Window * s.Batch // only what was on its way is sent again
			if p.Name() == "tidemark" {
				most = 0
			}
			require.LessOrEqual(t, k.Twice, uint64(most))
		})
	}
}

func TestTally(t *testing.T) {
	tally, b := newTally(2, 40), newBatch(1, 3, 40)
	b.number(999) // 999, 1000, 1001
	for _, record := range append(b.Records, b.Records[1], []byte("x"), bytes.Repeat([]byte("x"), 40)) {
		tally.add(record)
	}
	found, lost, twice := tally.sums([]uint64{2, 1000})
	require.Equal(t, [4]uint64{3, 2 + 998, 1, 2}, [4]uint64{found, lost, twice, tally.Damaged})
	other := newBatch(2, 1, 40) // a collector that is none of this run
	other.number(1)
	tally.add(other.Records[0])
	require.Equal(t, uint64(3), tally.Damaged)
}

func TestBatch(t *testing.T) {
	b := newBatch(7, 2, smallestRecord)
	b.number(123456789012)
	require.Equal(t, "0007 123456789012 ", string(b.Records[0][:headerSize]))
	require.Equal(t, "0007 123456789013 ", string(b.Records[1][:headerSize]))
	require.Equal(t, string(b.Records[0])+"\n"+string(b.Records[1])+"\n", string(b.Text))
	require.Len(t, b.Records[0], smallestRecord)
}

// TestCommand runs the whole program, and reads back what it wrote.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	file, plot := filepath.Join(dir, "figures.json"), filepath.Join(dir, "plot.svg")
	var out, progress strings.Builder
	require.NoError(t, command(t.Context(), []string{"-peers", "tidemark,bare", "-collectors", "2", "-batch", "10", "-size", "64",
		"-seconds", "0.2", "-rounds", "1", "-dir", dir, "-json", file, "-svg", plot}, &out, &progress))
	require.Contains(t, out.String(), "| bare | ")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var r Report
	require.NoError(t, json.Unmarshal(text, &r))
	for _, p := range r.Peers {
		require.Len(t, p.Rounds, 1)
		f := p.Rounds[0]
		require.Positive(t, f.RecordsPerSecond)
		require.InDelta(t, f.RecordsPerSecond/2, f.HalfRate, 1)
		require.GreaterOrEqual(t, f.P99, f.P50)
		require.Positive(t, f.P50)
	}
	require.Len(t, r.Disk, 1)
	require.Positive(t, r.Disk[0].P50)
	require.FileExists(t, plot)
	left, err := filepath.Glob(filepath.Join(dir, "bench-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-collectors", "0"}, {"-size", "3"}, {"-nothing"}, {"what"}, {"-kill", "-svg", "x"}, {"-seconds", "0"}} {
		var said strings.Builder
		require.ErrorIs(t, command(t.Context(), args, io.Discard, &said), errUsage)
		require.NotEmpty(t, said.String())
	}
	require.ErrorContains(t, command(t.Context(), []string{"-peers", "bear"}, io.Discard, io.Discard), `unknown peer "bear"`)
}

// failing is a peer that can't start.
type failing struct{ barePeer }

func (*failing) Start(context.Context, string) (Server, error) { return nil, errors.New("it can't") }

// TestFailingPeer sees that the others keep their figures, and that nobody can overlook it.
func TestFailingPeer(t *testing.T) {
	s := settings(t)
	s.Kill = true
	r, err := compare(t.Context(), s, []Peer{&failing{barePeer{settings: s}}, &barePeer{settings: s}}, io.Discard)
	require.ErrorContains(t, err, "round 1: bare before the kill: it can't")
	require.Equal(t, "failed in round 1", r.Peers[0].Skipped)
	require.Len(t, r.Peers[1].Kills, 1)
	require.Contains(t, r.table(), "| bare | failed in round 1 |")
}
