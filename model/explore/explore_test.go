package explore

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// only explores for one invariant alone, whatever the counts: to see what a broken machine leads to.
var only = flag.String("only", "", "check this invariant alone, of all configs that must hold")

// most leaves large worlds out: model/mutants explores many times.
var most = flag.Int("most", 0, "leave out configs with more distinct worlds than this; 0: none")

const (
	specDir = "../../docs/spec"
	// hunting is the environment variable of make hunt: then everything runs, and also the configs in
	// testdata, which are larger and were not counted with TLC.
	hunting = "TIDEMARK_HUNT"
	// mostWithRace bounds the distinct worlds of a config that runs with the race detector.
	mostWithRace = 100_000
)

// counts is what TLC counted of a config.
type counts struct{ generated, distinct int }

// readCounts reads the tables of docs/spec/README.md, of one module.
func readCounts(t *testing.T, module string) map[string]counts {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `(" + module + "_\\w+)` \\|.*\\| ([0-9,]+) \\| ([0-9,]+) \\|$")
	readme, err := os.ReadFile(filepath.Join(specDir, "README.md"))
	require.NoError(t, err)
	number := func(text string) int {
		n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
		require.NoError(t, err)
		return n
	}
	table := map[string]counts{}
	for _, cells := range row.FindAllStringSubmatch(string(readme), -1) {
		require.NotContains(t, table, cells[1], "two rows in docs/spec/README.md")
		table[cells[1]] = counts{number(cells[2]), number(cells[3])}
	}
	return table
}

func readConfigs(t *testing.T, pattern string) (list []*Config) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths, pattern)
	for _, path := range paths {
		cfg, err := ReadConfig(path)
		require.NoError(t, err)
		list = append(list, cfg)
	}
	return list
}

func readConfig(t *testing.T, name string) *Config {
	t.Helper()
	return readConfigs(t, filepath.Join(specDir, name+".cfg"))[0]
}

// wholeGraph names, for a config that TLC finds to violate liveness and leaves unfinished, the one with
// the same constants that TLC finishes.
var wholeGraph = map[string]string{"System_ShortHistory": "System_ShortHistorySafe"}

// TestExplore explores each System config with the shipped machine: the counts are TLC's, and what must
// hold does, and what must be violated is.
func TestExplore(t *testing.T) {
	table := readCounts(t, "System")
	configs := readConfigs(t, filepath.Join(specDir, "System_*.cfg"))
	require.Len(t, table, len(configs), "docs/spec/README.md has a row for each System config")
	var ran int
	for _, cfg := range configs {
		require.Contains(t, table, cfg.Name, "docs/spec/README.md has no row")
		want := table[cfg.Name]
		if whole, ok := wholeGraph[cfg.Name]; ok {
			require.Equal(t, readConfig(t, whole).Constants, cfg.Constants)
			t.Logf("%s: TLC ends at a violation of liveness, which is not looked for here; the whole graph is compared", cfg.Name)
			want = table[whole]
		}
		if *most > 0 && want.distinct > *most {
			continue
		}
		if raceDetector && want.distinct > mostWithRace && os.Getenv(hunting) == "" {
			t.Logf("%s: not with the race detector, it has %d worlds; %s=1 runs it", cfg.Name, want.distinct, hunting)
			continue
		}
		if *only != "" {
			if cfg.MustFail {
				continue
			}
			cfg.Invariants, cfg.MustFail = []string{*only}, true
		}
		ran++
		t.Run(cfg.Name, func(t *testing.T) {
			got := exploreShipped(t, cfg)
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
			require.Equal(t, want, counts{got.Generated, got.Distinct}, "TLC's counts, from docs/spec/README.md")
		})
	}
	require.NotZero(t, ran)
}

// TestExploreMore explores larger worlds than those that TLC counted, when hunting.
func TestExploreMore(t *testing.T) {
	for _, cfg := range readConfigs(t, "testdata/Hunt_*.cfg") {
		if os.Getenv(hunting) == "" {
			t.Logf("%s: %s; %s=1 runs it", cfg.Name, cfg.Shows, hunting)
			continue
		}
		t.Run(cfg.Name, func(t *testing.T) {
			got := exploreShipped(t, cfg)
			require.Nil(t, got.Violation, "%s", got.Violation)
			require.Greater(t, got.Distinct, 2_000_000)
		})
	}
}

func exploreShipped(t *testing.T, cfg *Config) *Result {
	t.Helper()
	return timed(t, cfg.Name, cfg.Checked(), cfg.LeftToTLC(), func() *Result { return Explore(cfg, Shipped{}) })
}

// timed explores, and prints what was found.
func timed(t *testing.T, name string, checked, left []string, explore func() *Result) *Result {
	t.Helper()
	begin := time.Now()
	got := explore()
	took, rest := time.Since(begin).Seconds(), ""
	if len(left) > 0 {
		rest = "; left to TLC: " + strings.Join(left, ", ")
	}
	t.Logf("%s: %d distinct, %d generated, %.2f s, %.0f distinct/s; checked: %s%s",
		name, got.Distinct, got.Generated, took, float64(got.Distinct)/took, strings.Join(checked, ", "), rest)
	return got
}
