package statemachine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/model"
)

// TestScripts runs the stories in testdata. A block is one or more commands, one a line; below the
// ---- stands what each of them answered and changed. The commands are those of model.Script, which also takes each
// of them on the sequential model and checks that the two agree, that the store gets the same image as a whole and by
// its delta, that a next life and a loaded state are the same stream, and what was promised.
//
// `go test ./statemachine -run TestScripts -rewrite` writes the output anew.
func TestScripts(t *testing.T) {
	for _, file := range scripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, blocks := model.NewScript(), 0
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				lines := []string{d.FullCmd()}
				if d.Input != "" {
					lines = append(lines, strings.Split(d.Input, "\n")...)
				}
				output, err := script.Block(lines)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				blocks++
				return output
			})
			require.NotZero(t, blocks, "%s has no command", file)
		})
	}
}

func scripts(t *testing.T) []string {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no scripts in testdata")
	return files
}

// TestTrackRecord: each script has a row in docs/track-record.md.
func TestTrackRecord(t *testing.T) {
	record, err := os.ReadFile("../docs/track-record.md")
	require.NoError(t, err)
	for _, file := range scripts(t) {
		require.Contains(t, string(record), strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
}
