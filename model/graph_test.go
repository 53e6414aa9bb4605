package model

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// twoStates is a graph file by hand: a stream that can be anchored, and asked about number 1.
const twoStates = `tidemark-graph 1
file Stream.tla aa
file StreamGraph.tla bb
file StreamGraph_Small.cfg cc
constant QueueCapacity = 2
constant MaxNacks = 2
constant History = 1
constant Ahead = 4
constant MaxCheckpoints = 2
constant KeepPayloads = TRUE
constant Sparse = FALSE
constant LastBatch = 1
constant Bodies = {0, 7}
constant LastCheckpoint = 1
constant LastEpoch = 0
count 2 1 2 2 2
0 0 0 0 - - - - - - 0 0 0
0 1 3 9 8:0,9:7 7:0 5:0 4-4,6-6 5:0,7:0 1:3:1,2:3:1 2 1 0
0 0 0 0 - - -
Anchor 1 0 -
Commit 1 0 RETRY
0 0 0:1
1 0 1
`

func zipped(t *testing.T, text string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return &b
}

func unzipped(t *testing.T, r io.Reader) string {
	t.Helper()
	z, err := gzip.NewReader(r)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(text)
}

func TestReadGraph(t *testing.T) {
	g, err := ReadGraph(zipped(t, twoStates))
	require.NoError(t, err)
	require.Equal(t, "StreamGraph_Small.cfg", g.Name())
	require.Equal(t, Constants{
		Limits:    statemachine.Limits{QueueCapacity: 2, Ahead: 4, History: 1, MaxCheckpoints: 2, MaxNacks: 2, KeepPayloads: true},
		LastBatch: 1, LastCheckpoint: 1, Bodies: []uint64{0, 7},
	}, g.Constants)
	require.Equal(t, statemachine.State{
		Anchored: true, Committed: 3, Received: 9,
		Queue:    []statemachine.Batch{{ID: 8, Records: 1}, {ID: 9, Digest: 7, Records: 1}},
		Inflight: []statemachine.Batch{{ID: 7, Records: 1}}, Settled: []statemachine.Batch{{ID: 5, Records: 1}},
		Missing: []statemachine.Range{{First: 4, Last: 4}, {First: 6, Last: 6}}, Digests: []statemachine.Digest{{ID: 5}, {ID: 7}},
		Checkpoints: []statemachine.Mark{{Checkpoint: 1, Watermark: 3, Settled: 1}, {Checkpoint: 2, Watermark: 3, Settled: 1}},
		Last:        2, Nacks: 1,
	}, g.Streams[1])
	require.Equal(t, []Step{{Call{"Anchor", 1, 0}, NoAnswer}, {Call{"Commit", 1, 0}, "RETRY"}}, g.Steps)
	require.Equal(t, []State{
		{Place{0, 0}, []Edge{{0, Place{1, 0}}}},
		{Place{1, 0}, []Edge{{1, Place{1, 0}}}},
	}, g.States)
	require.Equal(t, 2, g.Edges())

	var again bytes.Buffer
	require.NoError(t, g.Encode(&again))
	require.Equal(t, twoStates, unzipped(t, &again))
}

func TestReadGraphRefuses(t *testing.T) {
	for name, c := range map[string]struct{ old, now, want string }{
		"another format":      {"tidemark-graph 1", "tidemark-graph 2", "line 1: "},
		"a constant left out": {"Ahead = 4", "History = 1", "line 15: "},
		"no such stream":      {"\n1 0 1\n", "\n2 0 1\n", `line 23: "2", allowed are 0 to 1`},
		"no such step":        {"\n1 0 1\n", "\n1 0 2\n", `line 23: "2", allowed are 0 to 1`},
		"an edge too few":     {"\n1 0 1\n", "\n1 0\n", "line 23: 1 edges, announced were 2"},
		"a word too many":     {"RETRY", "RETRY RETRY", `line 21: "RETRY" is too much`},
		"a word too few":      {" RETRY", "", "line 21: a word is missing"},
		"cut off":             {"\n1 0 1\n", "\n", "line 23: unexpected EOF"},
		"not a number":        {"8:0,9:7", "8:0,x:7", `line 18: "x" is not a number`},
		"half a pair":         {"8:0,9:7", "8:0,9", `line 18: "9" does not have 2 numbers`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(twoStates, c.old, c.now, 1)
			require.NotEqual(t, twoStates, text)
			_, err := ReadGraph(zipped(t, text))
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := ReadGraph(strings.NewReader("plain text"))
	require.Error(t, err)
}

// TestReplayFails damages the first state of a graph and shows that each kind of difference between
// graph and Go code is found and named.
func TestReplayFails(t *testing.T) {
	anchor, commit, complete := Call{Action: "Anchor", Arg: 1}, Call{Action: "Commit", Arg: 1}, Call{Action: "Complete", Arg: 1}
	for name, c := range map[string]struct {
		damage func(g *Graph)
		want   string
	}{
		"an edge is missing": {
			func(g *Graph) { g.States[0].Edges = g.States[0].Edges[1:] },
			"the specification allows it: false, the Go code: true",
		},
		"an edge too many": {
			func(g *Graph) {
				g.Steps = append(g.Steps, Step{Call{Action: "Resume"}, NoAnswer})
				g.States[0].Edges = append(g.States[0].Edges, Edge{Step: len(g.Steps) - 1})
			},
			"the specification allows it: true, the Go code: false",
		},
		"another answer":    {func(g *Graph) { g.Steps[edgeOf(g, commit).Step].Answer = "ACK" }, "answer: want ACK, got RETRY"},
		"another stream":    {func(g *Graph) { edgeOf(g, anchor).To.Stream = 0 }, "next stream:"},
		"another image":     {func(g *Graph) { edgeOf(g, complete).To.Image++ }, "image:"},
		"unknown arguments": {func(g *Graph) { g.Steps[edgeOf(g, anchor).Step].Arg = 99 }, "the constants do not allow it"},
	} {
		t.Run(name, func(t *testing.T) {
			g := readGraph(t, "testdata/StreamGraph_Bound.graph.gz")
			require.NoError(t, g.Replay())
			c.damage(g)
			err := g.Replay()
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "StreamGraph_Bound.cfg: state 0, stream []: ")
		})
	}
}

// edgeOf is the edge of a call in the first state.
func edgeOf(g *Graph, c Call) *Edge {
	for i := range g.States[0].Edges {
		if e := &g.States[0].Edges[i]; g.Steps[e.Step].Call == c {
			return e
		}
	}
	panic("no such edge")
}
