package mutants

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	full   = flag.Bool("full", false, "run all layers on each mutant, and hold the table of docs/en/verification.md against it: some minutes")
	update = flag.Bool("update", false, "the same, and write the table anew")
)

// root is the module's, as seen from this package.
const root = "../.."

// mutant is one way to break the code.
type mutant struct {
	name, fault string // the fault, in words
	edits       []edit
}

// edit replaces a text that stands in a file exactly once.
type edit struct{ file, old, new string }

// TestMutants breaks the code in each way of the list. By default the first two layers run on a mutant that catch it, as
// the table of docs/en/verification.md says; with -full all of them do, and the table must say what they find.
func TestMutants(t *testing.T) {
	list := all()
	require.GreaterOrEqual(t, len(list), 25)
	readSources(t)
	if *full || *update {
		everyLayer(t, list)
		return
	}
	table := readTable(t)
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			catching := table[m.name]
			require.NotEmpty(t, catching, "no layer catches it, by the table; find out: go test ./model/mutants -full -run 'TestMutants/mutant/%s'", m.name)
			caught := run(t, &m, catching[:min(2, len(catching))])
			t.Logf("%s: %v", m.fault, caught)
			for name, what := range caught {
				require.NotEmpty(t, what, "%s does not catch it any more", name)
			}
		})
	}
}

// everyLayer runs all layers on each mutant, and first on the code as it is.
func everyLayer(t *testing.T, list []mutant) {
	var (
		mu    sync.Mutex
		found = map[string]row{}
	)
	t.Run("unchanged", func(t *testing.T) {
		for name, what := range run(t, &unchanged, layers) {
			require.Empty(t, what, "%s fails without a mutant: what it says of mutants means nothing", name)
		}
	})
	t.Run("mutant", func(t *testing.T) {
		for _, m := range list {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				caught := run(t, &m, layers)
				t.Logf("%s: %v", m.fault, caught)
				require.NotZero(t, caught.count(), "no layer catches it")
				mu.Lock()
				defer mu.Unlock()
				found[m.name] = caught
			})
		}
	})
	if !t.Failed() && len(found) == len(list) { // all of them ran
		compare(t, list, found)
	}
}

// unchanged edits nothing but a comment, in each package that a layer is about.
var unchanged = mutant{"unchanged", "", []edit{
	{"statemachine/session.go", "// MaxRefused is", "// MaxRefused says"},
	{"statemachine/seat.go", "// MaxRetired is", "// MaxRetired says"},
	{"collector/core2.go", "// Watermark is", "// Watermark says"},
	{"model/explore/seat_server.go", "// DoPush tells", "// DoPush says to"},
	{"server/server.go", "// ErrClosed is", "// ErrClosed says"},
	{"model/explore/world.go", "// world is the", "// world says the"},
}}

// changed are the texts of the files that the edits change, by path.
func changed(t *testing.T, edits []edit) map[string]string {
	t.Helper()
	require.NotEmpty(t, edits)
	texts := map[string]string{}
	for _, e := range edits {
		path, err := filepath.Abs(filepath.Join(root, e.file))
		require.NoError(t, err)
		text, seen := texts[path]
		if !seen {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			text = string(content)
		}
		require.Equal(t, 1, strings.Count(text, e.old), "the mutant is out of date: %s must hold this once:\n%s", e.file, e.old)
		require.NotEqual(t, e.old, e.new)
		texts[path] = strings.Replace(text, e.old, e.new, 1)
	}
	return texts
}

// overlayFile writes the changed files, and the file that tells go build what they replace.
func overlayFile(t *testing.T, edits []edit) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for path, text := range changed(t, edits) {
		to := filepath.Join(dir, strings.ReplaceAll(path, string(filepath.Separator), "_"))
		require.NoError(t, os.WriteFile(to, []byte(text), 0o600))
		replace[path] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// readSources opens every file that the layers are made of, so that go test runs this test again when one has changed.
func readSources(t *testing.T) {
	t.Helper()
	for _, folder := range []string{"collector", "docs/spec", "model", "protocol", "server", "statemachine"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			return f.Close()
		}))
	}
}

// TestMutantsAreUpToDate says at once which ones are not, before any is compiled.
func TestMutantsAreUpToDate(t *testing.T) {
	for _, m := range all() {
		require.NotEmpty(t, changed(t, m.edits), m.name)
	}
}
