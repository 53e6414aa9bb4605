package statemachine

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pureImports is all that the package may import: functions of their arguments, nothing of the world.
var pureImports = map[string]bool{
	"bytes": true, "cmp": true, "encoding/binary": true, "errors": true, "fmt": true, "iter": true, "maps": true,
	"math": true, "math/bits": true, "slices": true, "sort": true, "strconv": true, "strings": true,
}

// impure says of the imports one reaches for first what to do instead.
var impure = map[string]string{
	"context":      "no action waits, so none can be cancelled; the host decides when to call",
	"log":          "the machine answers and never reports: return what happened, the host logs it",
	"log/slog":     "the machine answers and never reports: return what happened, the host logs it",
	"math/rand":    "the same actions must give the same state; take a number as an argument",
	"math/rand/v2": "the same actions must give the same state; take a number as an argument",
	"net":          "connections belong to the host; Session has the rules of one",
	"os":           "files belong to the host; Image and AppendDelta give the bytes to store",
	"runtime":      "the machine must not depend on where it runs",
	"sync":         "one goroutine at a time uses a stream; the host has the lock",
	"sync/atomic":  "one goroutine at a time uses a stream; the host has the lock",
	"time":         "there is no clock here: the host calls Resume, Snapshot and Abort when it is time",
	"unsafe":       "the machine keeps to the language; use encoding/binary",
}

// TestImports keeps the machine pure: what it can't import it can't do.
func TestImports(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			seen++
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if problem := importProblem(path); problem != "" {
				t.Errorf("%s imports %q: %s", name, path, problem)
			}
		}
	}
	require.Positive(t, seen, "no import was looked at")
}

func importProblem(path string) string {
	if pureImports[path] {
		return ""
	}
	if instead, known := impure[path]; known {
		return instead
	}
	return "allowed are only pure packages of the standard library; add it to pureImports if it reads no clock, file, network or randomness and starts no goroutine"
}

// TestImportProblem shows that the rule can fail, and that its two lists don't contradict each other.
func TestImportProblem(t *testing.T) {
	for path, instead := range impure {
		require.Equal(t, instead, importProblem(path))
	}
	require.Contains(t, importProblem("github.com/stretchr/testify/require"), "pureImports")
	require.Contains(t, importProblem("net/http"), "pureImports")
	require.Empty(t, importProblem("slices"))
}
