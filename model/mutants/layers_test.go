package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layer is a part of the tests that can catch a mutant.
type layer struct {
	name, pkg string
	run, skip string   // of go test
	sees      []string // paths whose files it is about; a mutant elsewhere does not run it
	flags     []string
}

// layers are run in this order; the columns of the table.
var layers = []layer{
	{name: "scripts", pkg: "statemachine", run: "^TestScripts$", sees: machineFiles},
	{name: "unit", pkg: "statemachine", run: "^Test", skip: "^TestScripts$|^TestTrackRecord$", sees: []string{"statemachine/"}, flags: fixed},
	{name: "graphs", pkg: "model", run: "^TestReplay$", sees: machineFiles},
	{name: "walks", pkg: "model", run: "^TestGate$/^(walk|promise)$", sees: machineFiles, flags: fixed},
	{name: "explorer", pkg: "model/explore", run: "^TestExplore$", sees: append([]string{"model/explore/server.go", "model/explore/checkpoint.go"}, machineFiles...), flags: small},
	{name: "seats", pkg: "model/explore", run: "^(TestExploreSeat|TestShippedCollector)$",
		sees: []string{"statemachine/seat.go", "model/explore/seat_", "collector/"}, flags: small},
	{name: "collector", pkg: "collector", run: "^Test", sees: []string{"collector/"}},
	{name: "server", pkg: "server", run: "^Test", skip: "^TestLinear", sees: []string{"statemachine/session.go", "statemachine/seat.go", "server/"}},
	{name: "porcupine", pkg: "server", run: "^TestLinear", sees: []string{"statemachine/session.go", "server/"}},
}

// machineFiles are those of the stream.
var machineFiles = []string{
	"statemachine/anchor.go", "statemachine/checkpoint.go", "statemachine/commit.go", "statemachine/deliver.go", "statemachine/delta.go",
	"statemachine/limits.go", "statemachine/receive.go", "statemachine/restore.go", "statemachine/session.go", "statemachine/stream.go",
}

// fixed makes the random layers the same each time, and leaves no files behind.
var fixed = []string{"-rapid.seed=1", "-rapid.shrinktime=1ms", "-rapid.nofailfile"}

// small leaves out the largest worlds of the explorer.
var small = []string{"-most=600000"}

// concerns tells whether the layer is about a file that the mutant changes.
func (l layer) concerns(m *mutant) bool {
	return slices.ContainsFunc(m.edits, func(e edit) bool {
		return slices.ContainsFunc(l.sees, func(path string) bool { return strings.HasPrefix(e.file, path) })
	})
}

// row says what each layer that ran on a mutant caught it with: a test, or what it says is broken; "" if it did not.
type row map[string]string

// run compiles the test binaries of the layers that are about a mutant, with the changed files in the place of the shipped
// ones, and runs them.
func run(t *testing.T, m *mutant, layers []layer) row {
	t.Helper()
	caught, dir := row{}, t.TempDir()
	overlay := []string{"-overlay", overlayFile(t, m.edits)}
	for _, l := range layers {
		if !l.concerns(m) {
			continue
		}
		binary := filepath.Join(dir, strings.ReplaceAll(l.pkg, "/", "_"))
		if _, err := os.Stat(binary); err != nil {
			build := exec.Command("go", append(append([]string{"test", "-c", "-ldflags=-s -w", "-o", binary}, overlay...), "./"+l.pkg)...)
			build.Dir = root
			output, err := build.CombinedOutput()
			require.NoError(t, err, "the mutant does not compile:\n%s", output)
		}
		caught[l.name] = l.fails(t, binary)
	}
	return caught
}

// fails runs a layer until its first failure, and names that.
func (l layer) fails(t *testing.T, binary string) string {
	t.Helper()
	args := append([]string{"-test.v", "-test.failfast", "-test.timeout=" + patience, "-test.run=" + l.run, "-test.skip=" + l.skip}, l.flags...)
	test := exec.Command(binary, args...)
	test.Dir = filepath.Join(root, l.pkg)
	test.Env = append(os.Environ(), "GOMAXPROCS=1") // two mutants at a time use two processors
	output, err := test.CombinedOutput()
	if err == nil {
		require.Contains(t, string(output), "--- PASS: ", "%s ran no test:\n%s", l.name, output)
		return ""
	}
	what := failure(string(output))
	require.NotEmpty(t, what, "%s failed without a failed test: %v\n%s", l.name, err, output)
	if m := counterexample.FindString(string(output)); m != "" {
		t.Log(m)
	}
	return what
}

// patience is how long a layer may take: some mutants hang.
const patience = "40s"

var (
	failed   = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	panicked = regexp.MustCompile(`(?m)^panic: `)
	violates = regexp.MustCompile(`\w+ violates (\w+): `)
	// counterexample is the script that the explorer prints.
	counterexample = regexp.MustCompile(`\w+ violates \w+: .*(\n\s*\d+\. .*)+`)
)

// failure is what a test binary says is broken: the property that the explorer saw violated, or the innermost test.
func failure(output string) string {
	if m := violates.FindStringSubmatch(output); m != nil {
		return m[1]
	}
	name := ""
	for _, m := range failed.FindAllStringSubmatch(output, -1) {
		if strings.HasPrefix(m[1], name) || name == "" {
			name = m[1]
		}
	}
	switch {
	case name != "":
		return name
	case panicked.MatchString(output):
		return "panic"
	}
	return ""
}
