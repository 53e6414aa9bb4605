package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inputOf is the input of files with these texts.
func inputOf(t *testing.T, texts ...string) input {
	in := input{counts: map[string]uint64{}}
	dir := t.TempDir()
	for i, text := range texts {
		path := filepath.Join(dir, string(rune('a'+i)))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		in.files = append(in.files, path)
		require.NoError(t, in.count(path))
	}
	return in
}

// The comparison finds what it is there for.
func TestCompare(t *testing.T) {
	for out, want := range map[string]comparison{
		"a\nb\n\nb\n":       {lines: 4, identical: true},
		"a\nb\n\n":          {lines: 3, lost: 1},
		"":                  {lost: 4},
		"a\nb\n\nb\na\n":    {lines: 5, duplicated: 1},
		"a\na\nb\n\nb\n":    {lines: 5, duplicated: 1},
		"b\na\n\nb\n":       {lines: 4},
		"a\nB\n\nb\n":       {lines: 4, lost: 1, duplicated: 1},
		"a\nb\n\nb":         {lines: 4},
		"a\nb\n\nb\r\n":     {lines: 4, lost: 1, duplicated: 1},
		"a\nb\nb\nb\nb\n\n": {lines: 6, duplicated: 2},
	} {
		in := inputOf(t, "a\nb\n", "", "\nb")
		require.Equal(t, uint64(4), in.lines)
		got, err := compare(in, strings.NewReader(out))
		require.NoError(t, err)
		require.Equal(t, want, got, "%q", out)
	}
}

// The standard library has what the demo is to show.
func TestReadInput(t *testing.T) {
	in, err := readInput(context.Background(), "net", "crypto")
	require.NoError(t, err)
	require.Greater(t, len(in.files), 1000)
	require.Greater(t, in.longest, 500_000)
	var tab, colon, cr, utf8, binary bool
	for line := range in.counts {
		tab = tab || strings.Contains(line, "\t")
		colon = colon || strings.Contains(line, "::")
		cr = cr || strings.Contains(line, "\r")
		utf8 = utf8 || strings.Contains(line, "é")
		binary = binary || strings.Contains(line, "\x00")
	}
	require.True(t, tab && colon && cr && utf8 && binary && in.counts[""] > 0)
}
