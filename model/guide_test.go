package model

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuide: the test file in the guide is example_test.go, and the failures shown there are what the gate printed.
func TestGuide(t *testing.T) {
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	file := strings.Replace(string(example), "package model_test", "package yours_test", 1)
	report, err := os.ReadFile("testdata/gate_published.txt")
	require.NoError(t, err)
	for _, guide := range []string{"../docs/en/gate.md", "../docs/zh/gate.md"} {
		text, err := os.ReadFile(guide)
		require.NoError(t, err)
		require.Contains(t, string(text), "```go\n"+file+"```\n", guide)
		shown := strings.Split(string(text), "```text\n")[1:]
		require.NotEmpty(t, shown, guide)
		for _, block := range shown {
			block, _, _ = strings.Cut(block, "```\n")
			require.True(t, strings.Contains(string(report), block), "%s shows what is not in testdata/gate_published.txt:\n%s", guide, block)
		}
	}
}
