package explore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

func TestReadConfig(t *testing.T) {
	cfg := readConfig(t, "System_StoreLost")
	require.Equal(t, &Config{
		Header: Header{
			Name: "System_StoreLost", Shows: "the store is lost in a crash: duplicates, no loss",
			Invariants: []string{"StreamSound", "NoLoss", "Covered"},
		},
		Constants: Constants{
			Limits:    statemachine.Limits{QueueCapacity: 2, Ahead: 2, History: 2, MaxCheckpoints: 1, MaxNacks: 2},
			LastBatch: 2, Window: 2, Depth: 2, MaxBreaks: 1, MaxCrashes: 1, MaxLost: 1, InOrder: true, Transactional: true,
		},
	}, cfg)
	require.Equal(t, []string{"StreamSound", "NoLoss", "Covered", "Rises", "Dirty"}, cfg.Checked())
	live := readConfig(t, "System_Live")
	require.Equal(t, []string{"AllAcknowledged", "Rises"}, live.Properties)
	require.Equal(t, []string{"AllAcknowledged"}, live.LeftToTLC())
	unsafe := readConfig(t, "System_SparseUnsafe")
	require.True(t, unsafe.MustFail)
	require.Equal(t, "gaps without re-sending lose data", unsafe.Shows)
}

// TestCheckedIsNamed: what a config names is checked, or said to be left to TLC.
func TestCheckedIsNamed(t *testing.T) {
	for _, cfg := range readConfigs(t, filepath.Join(specDir, "System_*.cfg")) {
		for _, name := range cfg.Invariants {
			require.Contains(t, cfg.Checked(), name, cfg.Name)
		}
		for _, name := range cfg.Properties {
			require.Contains(t, append(cfg.Checked(), "AllAcknowledged"), name, cfg.Name)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(specDir, "System_Reset.cfg"))
	require.NoError(t, err)
	for _, c := range []struct{ old, replacement, want string }{
		{"Window = 2", "", "constant Window is not given"},
		{"Window = 2", "Window = 256", "constant Window: "},
		{"Window = 2", "Window = 2\n    Window = 2", "not one of"},
		{"GoBackN = FALSE", "GoBackN = NO", `constant GoBackN: "NO", allowed are TRUE and FALSE`},
		{"MaxNacks = 2", "MaxNacks = two", "constant MaxNacks: "},
		{"LastBatch = 2", "LastBatch = 16", "LastBatch is 16, the explorer allows at most 15"},
		{"LastBatch = 2", "LastBatch = 5", "LastBatch * (MaxResets + 1) is 10, the explorer allows at most 8"},
		{"Depth = 3", "Depth = 5", "Depth is 5, the explorer allows at most 4"},
		{"InOrder = TRUE", "InOrder = FALSE", "InOrder is FALSE, a Session knows only TRUE"},
		{"NoLoss", "NoGain", "invariant NoGain: not one of System.tla"},
	} {
		require.Contains(t, string(text), c.old)
		path := filepath.Join(t.TempDir(), "Bad.cfg")
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), c.old, c.replacement, 1)), 0o600))
		_, err := ReadConfig(path)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, path)
	}
	_, err = ReadConfig(filepath.Join(t.TempDir(), "None.cfg"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestActionsOfNext: the actions are those of Next, in its order, by which the counts of violated
// configs are TLC's.
func TestActionsOfNext(t *testing.T) {
	next := nextOf(t, "System.tla")
	var names []string
	for part := range strings.SplitSeq(next, `\/`) {
		part = strings.TrimPrefix(strings.Trim(part, " \n()"), `\E id \in Numbers : `)
		if name, _, _ := strings.Cut(part, "("); name != "" {
			names = append(names, name)
		}
	}
	require.Equal(t, names, actionNames(systemWords))
}

// TestActionsOfSeatNext: TLC takes those of a connection for the first one, and then for the second.
func TestActionsOfSeatNext(t *testing.T) {
	before, rest, found := strings.Cut(nextOf(t, "Seat.tla"), `\E c \in Conns : `)
	require.True(t, found)
	each, after, found := strings.Cut(rest, ")\n")
	require.True(t, found)
	names := strings.FieldsFunc(strings.ReplaceAll(before+each+`\/`+each+after, "(c)", ""), func(r rune) bool {
		return strings.ContainsRune(`\/( `+"\n", r)
	})
	require.Equal(t, names, actionNames(seatWords))
}

// nextOf is Next of a specification.
func nextOf(t *testing.T, file string) string {
	t.Helper()
	spec, err := os.ReadFile(filepath.Join(specDir, file))
	require.NoError(t, err)
	_, next, found := strings.Cut(string(spec), "\nNext == ")
	require.True(t, found)
	next, _, _ = strings.Cut(next, "\n\n")
	return next
}

func actionNames(w *words) (names []string) {
	for _, word := range w.actions {
		names = append(names, word.name)
	}
	return names
}
