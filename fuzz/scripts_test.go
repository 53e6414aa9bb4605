package fuzz

import (
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/model"
	"github.com/tidemark/tidemark/statemachine/testdata"
)

// commands is a script without its comments and the output below its commands.
func commands(script string) string {
	var kept []string
	output := false
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case line == "----":
			output = true
		case line == "":
			output = false
			kept = append(kept, line)
		case !output && line[0] != '#':
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// FuzzScript: any text is a script that runs, or the error names the line.
//
// Each line is first given to a script of its own, which has no stream: there it is taken apart, and only new does
// anything. Then the blocks run one after the other, up to the first error. A script may ask for any work, so that there
// is no bound on memory or time in its length; here its numbers are made small before it runs.
func FuzzScript(f *testing.F) {
	files, err := fs.Glob(testdata.Scripts, "*.txt")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		text, err := fs.ReadFile(testdata.Scripts, file)
		require.NoError(f, err)
		f.Add(commands(string(text)))
	}
	f.Add("new max-checkpoints=0")
	f.Add("new\nreceive 1-18446744073709551615\nanchor 9223372036854775808\nrepeat 2\nbody=(a, b) -1 =\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		lines = lines[:min(len(lines), 60)]
		for _, line := range lines {
			runBlock(t, model.NewScript(), []string{line})
		}
		script := model.NewScript()
		for block := range strings.SplitSeq(small(lines), "\n\n") {
			if !runBlock(t, script, strings.Split(block, "\n")) {
				return
			}
		}
	})
}

// runBlock tells whether the block ran.
func runBlock(t testing.TB, script *model.Script, lines []string) bool {
	t.Helper()
	_, err := script.Block(lines)
	if err == nil {
		return true
	}
	require.NotContains(t, err.Error(), "runtime error", "%q", lines) // a panic of the machine is an error of Block
	for _, line := range lines {
		if strings.Contains(err.Error(), strconv.Quote(line)) {
			return false
		}
	}
	t.Fatalf("%q: the error names no line: %v", lines, err)
	return false
}

var long = regexp.MustCompile(`[0-9]{3,18}`)

// small keeps the last two digits of long numbers, and one where commands are repeated. The largest numbers stay, but for
// those in a range.
func small(lines []string) string {
	kept := make([]string, len(lines))
	for i, line := range lines {
		kept[i] = long.ReplaceAllStringFunc(line, func(digits string) string {
			if len(digits) == 18 && !strings.ContainsAny(line, "-") {
				return digits
			}
			return digits[len(digits)-2:]
		})
		if strings.HasPrefix(strings.TrimSpace(line), "repeat") {
			kept[i] = regexp.MustCompile(`[0-9]{2,}`).ReplaceAllString(line, "3")
		}
	}
	return strings.Join(kept, "\n")
}
