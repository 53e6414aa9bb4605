package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/model"
	"github.com/tidemark/tidemark/statemachine"
)

const (
	fresh    = `{"anchored":false,"epoch":0,"digests":[],"checkpoints":[],"committed":0,"received":0,"queue":[],"inflight":[],"settled":[],"missing":[],"last":0,"nacks":0,"halted":false}`
	anchored = `{"epoch":0,"digests":[[2,7],[1,0]],"anchored":true,"committed":0,"received":5,"queue":[{"id":2,"body":7}],"inflight":[],"settled":[{"body":0,"id":1}],"missing":[5,3,4],"checkpoints":[[2,{"settled":1,"watermark":1}],[1,{"watermark":0,"settled":0}]],"last":2,"nacks":0,"halted":false}`
	// the same with the fields in another order, as TLC does
	anchoredAgain = `{"last":2,"nacks":0,"halted":false,"epoch":0,"digests":[[1,0],[2,7]],"anchored":true,"committed":0,"received":5,"queue":[{"body":7,"id":2}],"inflight":[],"settled":[{"body":0,"id":1}],"missing":[3,4,5],"checkpoints":[[1,{"watermark":0,"settled":0}],[2,{"settled":1,"watermark":1}]]}`
	image         = `{"anchored":false,"epoch":0,"digests":[],"received":0,"queue":[],"missing":[],"watermark":0}`

	anchor = `{"action":"Anchor","id":1}`
	commit = `{"action":"Commit","id":1,"reply":"PENDING"}`
	rebase = `{"action":"Rebase","first":3,"lost":[4,2,1]}`

	done = "Model checking completed. No error has been found.\n4 states generated, 2 distinct states found, 0 states left on queue.\n"

	config = `\* a comment
SPECIFICATION Spec
CONSTANTS
    QueueCapacity = 2
    MaxNacks = 2
    History = 1
    Ahead = 4
    MaxCheckpoints = 2
    KeepPayloads = TRUE
    Sparse = FALSE
    LastBatch = 2
    Bodies = {0, 7}
    LastCheckpoint = 2
    LastEpoch = 1
INVARIANTS Ok
VIEW View
`
)

func tlcLine(from, step, to string) string {
	return strconv.Quote(`{"from":`+from+`,"image":`+image+`,"step":`+step+`,"to":`+to+`,"toImage":`+image+`}`) + "\n"
}

var lines = []string{
	"Starting...\n",
	tlcLine(fresh, anchor, anchored),
	tlcLine(anchoredAgain, commit, anchored),
	tlcLine(anchored, rebase, anchoredAgain),
}

// generate runs the tool and returns the graph it wrote.
func generate(t *testing.T, output string) (*model.Graph, []byte, error) {
	t.Helper()
	spec, out := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{"Stream.tla": "s", "StreamGraph.tla": "g", "StreamGraph_Toy.cfg": config} {
		require.NoError(t, os.WriteFile(filepath.Join(spec, name), []byte(content), 0o600))
	}
	if err := run(strings.NewReader(output), spec, out, "StreamGraph_Toy"); err != nil {
		left, globErr := filepath.Glob(filepath.Join(out, "*"))
		require.NoError(t, globErr)
		require.Empty(t, left, "a failure leaves a file behind")
		return nil, nil, err
	}
	content, err := os.ReadFile(filepath.Join(out, "StreamGraph_Toy.graph.gz"))
	require.NoError(t, err)
	g, err := model.ReadGraph(strings.NewReader(string(content)))
	require.NoError(t, err)
	return g, content, nil
}

func TestGenerate(t *testing.T) {
	g, content, err := generate(t, strings.Join(lines, "")+done)
	require.NoError(t, err)
	require.Equal(t, model.File{
		Name: "Stream.tla",
		Sum:  "043a718774c572bd8a25adbeb1bfcd5c0256ae11cecf9f9c3f925d0e52beaf89",
	}, g.Files[0])
	require.Equal(t, []uint64{0, 7}, g.Constants.Bodies)
	require.Equal(t, []model.Step{
		{Call: model.Call{Action: "Anchor", Arg: 1}, Answer: model.NoAnswer},
		{Call: model.Call{Action: "Commit", Arg: 1}, Answer: "PENDING"},
		{Call: model.Call{Action: "Rebase", Arg: 3}, Answer: "1-2,4-4"},
	}, g.Steps)
	there := model.Place{Stream: 1}
	require.Equal(t, []model.State{
		{Edges: []model.Edge{{Step: 0, To: there}}},
		{Place: there, Edges: []model.Edge{{Step: 1, To: there}, {Step: 2, To: there}}},
	}, g.States)
	require.Equal(t, "[anchored=1 received=5 queue=2:7 settled=1:0 missing=3-5 digests=1:0,2:7 checkpoints=1:0:0,2:1:1 last=2]",
		model.DescribeStream(&g.Streams[1]))
	require.Equal(t, []statemachine.Image{{}}, g.Images)

	_, again, err := generate(t, lines[3]+lines[2]+lines[1]+lines[0]+done)
	require.NoError(t, err)
	require.Equal(t, content, again, "the order in which TLC prints must not matter")
}

func TestGenerateRefuses(t *testing.T) {
	whole := strings.Join(lines, "")
	for name, c := range map[string]struct{ output, want string }{
		"TLC failed":        {whole + "Error: Invariant Ok is violated.\n", "TLC did not finish"},
		"nothing at all":    {"", "TLC did not finish"},
		"a line is lost":    {strings.Join(lines[:3], "") + done, "2 states and 2 edges, but TLC found 2 and 3"},
		"cut in a line":     {lines[1][:50], "not a quoted step"},
		"an unknown field":  {tlcLine(strings.Replace(fresh, `"last"`, `"latest"`, 1), anchor, anchored), "latest"},
		"an unknown action": {tlcLine(fresh, `{"action":"Jump"}`, anchored), `action "Jump"`},
		"a dead end": {
			lines[1] + tlcLine(fresh, commit, fresh) + tlcLine(fresh, rebase, fresh) + strings.Replace(done, "2 distinct", "1 distinct", 1),
			"no step leaves",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := generate(t, c.output)
			require.ErrorContains(t, err, c.want)
		})
	}
}
