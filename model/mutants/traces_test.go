package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/model/explore"
)

// traces are the faults of the published design that the specification found, or would have: which mutant makes the
// mistake, and the promise that it breaks.
var traces = []struct{ name, mutant, property string }{
	{"P1", "P1 watermark moved by batches", "NoLoss"},
	{"P2", "P2 anchor from the first batch", "NoLoss"},
	{"P3", "P3 cumulative ACK after a reset", "NoLoss"},
	{"P5", "P5 duplicate queued", "ExactlyOnce"},
	{"P7", "P7 gap never asked for", "NoLoss"},
	{"refusals", "one number for the refused set", "NoLoss"},
}

var steps = regexp.MustCompile(`(?m)^\s*\d+\. (\S.*?)(?:\s+#.*)?$`)

// TestTraces finds the shortest way from each mistake to a broken promise, and holds docs/track-record.md to it.
func TestTraces(t *testing.T) {
	readSources(t)
	record, err := os.ReadFile(filepath.Join(root, "docs/track-record.md"))
	require.NoError(t, err)
	for _, trace := range traces {
		t.Run(trace.name, func(t *testing.T) {
			t.Parallel()
			var m mutant
			for _, other := range all() {
				if other.name == trace.mutant {
					m = other
				}
			}
			binary := filepath.Join(t.TempDir(), "explore")
			build := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-o", binary, "-overlay", overlayFile(t, m.edits), "./model/explore")
			build.Dir = root
			output, err := build.CombinedOutput()
			require.NoError(t, err, "%s", output)
			test := exec.Command(binary, "-test.failfast", "-test.run=^TestExplore$", "-only="+trace.property)
			test.Dir = filepath.Join(root, "model/explore")
			output, err = test.CombinedOutput()
			require.Error(t, err, "%s does not break %s", m.name, trace.property)
			found := counterexample.FindString(string(output))
			require.NotEmpty(t, found, "%s", output)
			requireRecorded(t, string(record), found)
		})
	}
	t.Run("P4", func(t *testing.T) { // the shortest way to the answer that could not be reached
		cfg, err := explore.ReadConfig(filepath.Join(root, "docs/spec/System_NeverResend.cfg"))
		require.NoError(t, err)
		reached := explore.Explore(cfg, explore.Shipped{}).Violation
		require.NotNil(t, reached)
		requireRecorded(t, string(record), reached.String())
	})
}

func requireRecorded(t *testing.T, record, trace string) {
	t.Helper()
	t.Log(trace)
	var list []string
	for _, step := range steps.FindAllStringSubmatch(trace, -1) {
		list = append(list, step[1])
	}
	require.NotEmpty(t, list)
	if text := strings.Join(list, ", "); !strings.Contains(record, text) {
		t.Errorf("docs/track-record.md does not have this trace: %s", text)
	}
}
