package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var tlaWord = regexp.MustCompile(`"([A-Z_]+)"`)

// tlaWords yields the upper-case string literals of a TLA+ text.
func tlaWords(text string) []string {
	words := map[string]bool{}
	for _, m := range tlaWord.FindAllStringSubmatch(text, -1) {
		words[m[1]] = true
	}
	return slices.Sorted(maps.Keys(words))
}

// operator yields the definition of a TLA+ operator, up to the next blank line.
func operator(t *testing.T, module, name string) string {
	text, err := os.ReadFile(filepath.Join(root, "docs/spec", module+".tla"))
	require.NoError(t, err)
	_, body, found := strings.Cut("\n"+string(text), "\n"+name+"(")
	require.True(t, found, "%s.tla defines no %s", module, name)
	body, _, _ = strings.Cut(body, "\n\n")
	return body
}

// The spec and the definitions speak of the same requests and replies.
func TestSpecUsesTheDefinedWords(t *testing.T) {
	p, err := loadProtocol(os.DirFS(root))
	require.NoError(t, err)
	modules, err := filepath.Glob(filepath.Join(root, "docs/spec/*.tla"))
	require.NoError(t, err)
	require.NotEmpty(t, modules)
	used := map[string]bool{}
	for _, path := range modules {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, word := range tlaWords(string(text)) {
			require.True(t, hasWord(p.Commands, word) || hasWord(p.Codes, word), "%s: %q is in no definition", path, word)
			used[word] = true
		}
	}
	require.Subset(t, slices.Collect(maps.Keys(used)), []string{"BATCH", "COMMIT",
		"RECEIVED", "QUEUE_FULL", "RETRY", "CONFLICT", "STALE", "ACK", "RESEND", "PENDING"})
}

// What the spec's operators answer is what the definitions allow as an answer.
func TestSpecAnswersAsDefined(t *testing.T) {
	p, err := loadProtocol(os.DirFS(root))
	require.NoError(t, err)
	replies := map[string][]string{}
	for _, m := range p.Dialects[0].Requests {
		replies[m.Command] = m.Replies
	}
	for _, c := range []struct {
		module, operator, command string
		want                      []string
	}{
		{"Stream", "ReceiveReply", "BATCH", []string{"CONFLICT", "QUEUE_FULL", "RECEIVED", "STALE"}},
		{"Stream", "CommitReply", "COMMIT", []string{"ACK", "PENDING", "RESEND", "RETRY"}},
		{"System", "Answer", "COMMIT", []string{"PENDING", "RESEND", "RETRY"}},
	} {
		words := tlaWords(operator(t, c.module, c.operator))
		require.Equal(t, c.want, words, "%s.%s", c.module, c.operator)
		require.Subset(t, replies[c.command], words, "%s.%s", c.module, c.operator)
	}
}
