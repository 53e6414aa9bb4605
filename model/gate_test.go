package model

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// TestGate runs the gate on the shipped machine, its connections and its bytes included. The graphs are TestReplay's.
func TestGate(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	shipped().run(t, func(name string) bool {
		kind, _, _ := strings.Cut(name, "/")
		kinds[kind]++
		return kind != "graph"
	})
	require.Equal(t, len(variants), kinds["walk"])
	require.Equal(t, len(promises)+1, kinds["promise"])
	require.GreaterOrEqual(t, kinds["script"], 20)
	require.GreaterOrEqual(t, kinds["graph"], 7)
}

// open shows its state and does not guard itself.
type open struct{ Exact }

// TestGateExact: the graphs are replayed on a machine that is not the shipped one.
func TestGateExact(t *testing.T) {
	mk := exactMaker(
		func(limits *statemachine.Limits, img *statemachine.Image) (open, error) {
			s, err := statemachine.Restore(limits, img)
			return open{s}, err
		},
		func(limits *statemachine.Limits, st *statemachine.State) (open, error) {
			s, err := statemachine.Load(limits, st)
			return open{s}, err
		})
	for _, c := range mk.checks() {
		if c.name == "graph/StreamGraph_Sparse" || c.name == "script/dirty" {
			require.NoError(t, c.run(c.name))
		}
	}
	mk.load = func(limits *statemachine.Limits, st *statemachine.State) (Exact, error) {
		wrong := *st
		wrong.Received++
		s, _ := statemachine.Load(limits, &wrong)
		return open{s}, nil
	}
	for _, c := range mk.checks() {
		if c.name == "graph/StreamGraph_Sparse" || c.name == "script/dirty" {
			require.Error(t, c.run(c.name), c.name)
		}
	}
}
