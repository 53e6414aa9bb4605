package model

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	specDir = "../docs/spec"
	remake  = "make graph TLA2TOOLS=/path/to/tla2tools.jar"
)

func readGraph(t *testing.T, path string) *Graph {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err, "make it with: %s", remake)
	defer f.Close()
	g, err := ReadGraph(f)
	require.NoError(t, err, path)
	return g
}

// TestReplay takes every step of every StreamGraph config on the shipped machine.
func TestReplay(t *testing.T) {
	configs, err := filepath.Glob(filepath.Join(specDir, "StreamGraph*.cfg"))
	require.NoError(t, err)
	require.NotEmpty(t, configs)
	for _, config := range configs {
		name := strings.TrimSuffix(filepath.Base(config), ".cfg")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := readGraph(t, filepath.Join("testdata", name+".graph.gz"))
			require.Equal(t, name+".cfg", g.Name())
			require.NotZero(t, len(g.States))
			require.NotZero(t, g.Edges())
			t.Logf("%d states, %d edges", len(g.States), g.Edges())
			requireFresh(t, g)
			require.NoError(t, g.Replay())
		})
	}
}

// requireFresh fails when a specification file is not the one the graph was made from.
func requireFresh(t *testing.T, g *Graph) {
	t.Helper()
	for _, f := range g.Files {
		content, err := os.ReadFile(filepath.Join(specDir, f.Name))
		require.NoError(t, err)
		sum := sha256.Sum256(content)
		if hex.EncodeToString(sum[:]) != f.Sum {
			t.Fatalf("docs/spec/%s has changed since the graph of %s was made; make it anew: %s", f.Name, g.Name(), remake)
		}
	}
}
