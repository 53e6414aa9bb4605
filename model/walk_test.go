package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawn is the script of the random walk with a seed.
func drawn(t *testing.T, v variant, seed int) []string {
	t.Helper()
	return rapid.Custom(func(rt *rapid.T) []string {
		w := walk{host: host{twin: twin{maker: shipped()}}}
		w.start(rt, v, false)
		if err := w.repeat(rt); err != nil {
			rt.Fatalf("%v", err)
		}
		return w.lines
	}).Example(seed)
}

// TestDeterminism: the same seed gives the same walk, another seed another one.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		for seed := range 5 {
			require.Equal(t, drawn(t, v, seed), drawn(t, v, seed), "%s, seed %d", v.name, seed)
		}
		require.NotEqual(t, drawn(t, v, 1), drawn(t, v, 2))
	}
}

// TestWalksReach: random walks get to every answer and into every kind of trouble; a walk that doesn't shows nothing.
func TestWalksReach(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, v := range variants {
		for seed := range 25 {
			script := NewScript()
			for _, line := range drawn(t, v, seed) {
				before := openCheckpoints(script)
				output, err := script.Block([]string{line})
				require.NoError(t, err, "a script does not repeat the walk that made it")
				for _, word := range strings.FieldsFunc(output, func(r rune) bool { return strings.ContainsRune(" :,", r) }) {
					seen[word]++
				}
				name, arg, _ := strings.Cut(line, " ")
				seen[name]++
				if name == "rollback" && arg != "" {
					seen["a checkpoint kept"]++
				}
				if name == "snapshot" && openCheckpoints(script) == before {
					seen["the oldest forgotten"]++
				}
			}
		}
	}
	for _, event := range []string{
		"RECEIVED", "QUEUE_FULL", "CONFLICT", "STALE", "RETRY", "ACK", "RESEND", "PENDING",
		"anchor", "rebase", "receive", "skip", "emit", "settle", "rollback", "resume", "snapshot", "save", "complete", "abort",
		"restore", "commit", "connect", "refuse", "halted=true", "a checkpoint kept", "the oldest forgotten",
	} {
		require.Greater(t, seen[event], 3, "%s is hardly ever reached", event)
	}
}

func openCheckpoints(s *Script) int {
	if s.model == nil {
		return 0
	}
	return len(s.model.checkpoints)
}
