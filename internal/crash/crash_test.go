package main

import (
	"bufio"
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/internal/daemon"
)

// The child of a run is this program.
func TestMain(m *testing.M) {
	beChild()
	os.Exit(m.Run())
}

// The short form of `make crash`: collectors that wait for ACK, in both dialects, some that are killed themselves, and
// agents that forget on RECEIVED.
func TestCrash(t *testing.T) {
	programs := t.TempDir()
	require.NoError(t, daemon.Build(t.Context(), programs))
	for name, r := range map[string]run{
		"dialect 1": {dialect: 1}, "dialect 2": {dialect: 2}, "both": {dialect: 2, both: true},
		"both, dialect 1": {dialect: 1, both: true}, "forget": {dialect: 1, forget: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r.rounds, r.collectors, r.seed, r.out = 3, 3, rand.Uint64(), &out
			err := r.in(context.Background(), programs, t.TempDir())
			require.NoError(t, err, "repeat with: %s\n%s", r.command(), &out)
			require.Contains(t, out.String(), "rounds 3 records ")
			require.Contains(t, out.String(), "lost 0 duplicated 0 out of order 0 seed ")
		})
	}
}

// The check finds what it is there for.
func TestCheck(t *testing.T) {
	l := newLoad(&run{collectors: 2, seed: 1}, "")
	l.agents[0].made.Store(3)
	l.agents[1].made.Store(2)
	record := func(agent int, n uint64) string { return string(l.agents[agent].record(n)) + "\n" }
	all := []string{record(0, 1), record(1, 1), record(0, 2), record(0, 3), record(1, 2)}
	check := func(lines ...string) findings {
		found, err := l.checkLines(bufio.NewReader(strings.NewReader(strings.Join(lines, ""))))
		require.NoError(t, err)
		return found
	}
	require.Equal(t, findings{records: 5}, check(all...))
	require.Equal(t, findings{records: 4, lost: 1}, check(all[:4]...))
	require.Equal(t, findings{records: 6, duplicated: 1}, check(append(all, all[0])...))
	require.Equal(t, findings{records: 5, disordered: 1}, check(all[0], all[1], all[3], all[2], all[4]))
	for _, wrong := range []string{
		"nonsense\n", record(0, 4), strings.TrimSuffix(all[0], "\n"), strings.Replace(all[0], "c0 1", "c0 2", 1), "c7 1 \n", "\n",
		strings.TrimSuffix(all[0], "\n") + "x\n",
	} {
		_, err := l.checkLines(bufio.NewReader(strings.NewReader(wrong)))
		require.Error(t, err, "%.40q", wrong)
	}
	require.False(t, bytes.Contains(l.agents[0].record(1), []byte("\n")))
	require.Equal(t, l.agents[0].record(7), l.agents[0].record(7), "a record depends on the seed alone")
	require.NotEqual(t, l.agents[0].record(7)[5:], l.agents[1].record(7)[5:])
}
