package explore

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func readSeatConfigs(t *testing.T, pattern string) (list []*SeatConfig) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(specDir, pattern+".cfg"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, pattern)
	for _, path := range paths {
		cfg, err := ReadSeatConfig(path)
		require.NoError(t, err)
		list = append(list, cfg)
	}
	return list
}

// seatsOf are the shipped seats, and for a config with a constant that they do not know, seats around them that do what
// the specification says then.
func seatsOf(cfg *SeatConfig) SeatMaker {
	if cfg.Constants.CloseOlder && cfg.Constants.CheckNext {
		return Shipped{}
	}
	return looseSeats{closeOlder: cfg.Constants.CloseOlder, checkNext: cfg.Constants.CheckNext}
}

// TestExploreSeat explores each Seat config, those that must hold first, and of them the small ones: the counts are TLC's, and what must hold does, and
// what must be violated is.
func TestExploreSeat(t *testing.T) {
	table := readCounts(t, "Seat")
	configs := readSeatConfigs(t, "Seat_*")
	require.Len(t, table, len(configs), "docs/spec/README.md has a row with counts for each Seat config")
	slices.SortStableFunc(configs, func(a, b *SeatConfig) int {
		fails := map[bool]int{true: 1}
		return cmp.Or(cmp.Compare(fails[a.MustFail], fails[b.MustFail]), cmp.Compare(table[a.Name].distinct, table[b.Name].distinct))
	})
	if *only != "" && seatInvariants[*only] == nil {
		t.Logf("%s is not an invariant of Seat.tla", *only)
		return
	}
	var ran int
	for _, cfg := range configs {
		require.Contains(t, table, cfg.Name, "docs/spec/README.md has no row")
		if *most > 0 && table[cfg.Name].distinct > *most {
			continue
		}
		if raceDetector && table[cfg.Name].distinct > mostWithRace && os.Getenv(hunting) == "" {
			t.Logf("%s: not with the race detector, it has %d worlds; %s=1 runs it", cfg.Name, table[cfg.Name].distinct, hunting)
			continue
		}
		if *only != "" && cfg.MustFail {
			continue
		}
		ran++
		t.Run(cfg.Name, func(t *testing.T) { exploreSeat(t, cfg, table[cfg.Name]) })
	}
	require.NotZero(t, ran)
}

func exploreSeat(t *testing.T, cfg *SeatConfig, want counts) {
	if *only != "" {
		cfg.Invariants, cfg.MustFail = []string{*only}, true
	}
	got := timed(t, cfg.Name, cfg.Checked(), cfg.LeftToTLC(), func() *Result { return ExploreSeat(cfg, seatsOf(cfg), PlainCollectors{}) })
	if *only != "" {
		require.Nil(t, got.Violation, "%s", got.Violation)
		return
	}
	if !cfg.MustFail || len(cfg.Invariants) == 0 {
		require.Nil(t, got.Violation, "%s", got.Violation)
	} else {
		require.NotNil(t, got.Violation, "expected to fail")
		require.Equal(t, cfg.Invariants, []string{got.Violation.Property})
	}
	if len(cfg.LeftToTLC()) > 0 && cfg.MustFail { // TLC may end before it has seen the whole graph
		t.Logf("%s: TLC finds a violation of liveness, which is not looked for here", cfg.Name)
		require.GreaterOrEqual(t, got.Generated, want.generated, "the whole graph has at least what TLC saw of it")
		require.GreaterOrEqual(t, got.Distinct, want.distinct, "the whole graph has at least what TLC saw of it")
		return
	}
	require.Equal(t, want, counts{got.Generated, got.Distinct}, "TLC's counts, from docs/spec/README.md")
}

// TestSeatCounterexampleIsScript: what is found can be pasted and leads there again.
func TestSeatCounterexampleIsScript(t *testing.T) {
	for _, name := range []string{"Seat_NoClose", "Seat_NoNext", "Seat_NoReadyOutlives"} {
		cfg := readSeatConfigs(t, name)[0]
		found := ExploreSeat(cfg, seatsOf(cfg), PlainCollectors{}).Violation
		require.NotNil(t, found)
		_, script, _ := strings.Cut(found.String(), "\n")
		again, err := RunSeat(cfg, seatsOf(cfg), PlainCollectors{}, script)
		require.NoError(t, err)
		require.Equal(t, found, again)
		t.Log(found)
	}
}
