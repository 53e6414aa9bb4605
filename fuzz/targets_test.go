package fuzz

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// target is the name that the fuzz target of a message has: FuzzBatch, FuzzReplyQueueFull. Of a later dialect it has
// the number at its end, for the bytes are others: FuzzBatch2.
func target(m protocol.Message) string {
	name, word := "Fuzz", m.Command.String()
	if m.Code != 0 {
		name, word = "FuzzReply", m.Code.String()
	}
	for part := range strings.SplitSeq(word, "_") {
		name += part[:1] + strings.ToLower(part[1:])
	}
	if m.Dialect > 1 {
		name += fmt.Sprint(m.Dialect)
	}
	return name
}

// A new message gets its target with the generated code, or this fails.
func TestEachMessageHasItsTarget(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`).FindAllSubmatch(text, -1) {
			targets[string(found[1])] = true
		}
	}
	const dialects = 9 // more than there will be soon
	messages := 0
	for dialect := range dialects {
		for m := range protocol.Messages(dialect) {
			messages++
			require.True(t, targets[target(m)], "no target for %+v: add %s(f *testing.F) beside those of its dialect", m, target(m))
		}
	}
	require.Greater(t, messages, 20)
}
