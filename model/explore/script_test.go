package explore

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// TestScripts takes the scripts in testdata; the argument names the config. What is printed is the
// violation, or what is wrong with the script. -rewrite writes it anew.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				require.Equal(t, "run", d.Cmd)
				var name string
				d.ScanArgs(t, "config", &name)
				violation, err := Run(readConfig(t, name), Shipped{}, d.Input)
				switch {
				case err != nil:
					return err.Error()
				case violation != nil:
					return violation.String()
				default:
					return "everything holds"
				}
			})
		})
	}
}

// TestCounterexampleIsScript: what is found can be pasted and leads there again.
func TestCounterexampleIsScript(t *testing.T) {
	for _, name := range []string{"System_SparseUnsafe", "System_NeverResend", "System_NeverRetry", "System_NeverAllAcked"} {
		cfg := readConfig(t, name)
		found := Explore(cfg, Shipped{}).Violation
		require.NotNil(t, found)
		_, script, _ := strings.Cut(found.String(), "\n")
		again, err := Run(cfg, Shipped{}, script)
		require.NoError(t, err)
		require.Equal(t, found, again)
	}
}

// TestStepText: every step there can be is read back from its text.
func TestStepText(t *testing.T) {
	for _, words := range []*words{systemWords, seatWords} {
		for action, word := range words.actions {
			want := step{action: uint8(action), arg: word.only}
			if word.arg && word.only == 0 {
				want.arg = 3
			}
			got, some, err := words.parse(" 12. " + words.text(want) + " # remark")
			require.NoError(t, err)
			require.True(t, some)
			require.Equal(t, want, got)
		}
	}
}
