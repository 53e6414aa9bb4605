package model

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

const encodingsDir = "testdata/encodings"

// stories are the streams whose images are kept as bytes: between them they have every field of a delta.
var stories = map[string]string{
	"full": `new queue-capacity=9 ahead=20 history=20 keep-payloads
anchor 1
receive 1 2 5 9
emit 1
settle
checkpoint
receive 4 15
receive 3 body=x
emit 2
settle 1
checkpoint
rebase 7
emit
settle
checkpoint
restore
receive 16
checkpoint`,
	"light": `new queue-capacity=9 ahead=20 history=2
anchor 3
checkpoint
receive 3-6 9
emit 3
settle
checkpoint
receive 7
checkpoint
restore
receive 6 9
emit
settle
checkpoint`,
	"sparse": `new ahead=3 history=3 sparse keep-payloads
anchor 1
receive 10 1000 1000000
emit 2
settle
checkpoint
receive 1000001
checkpoint`,
	"fresh": `new
checkpoint
anchor 9223372036854775807
receive 9223372036854775807
checkpoint`,
}

// encode runs a story and writes a line for each checkpoint: its delta, and the image that it makes of the one before.
// The first delta of a life is whole, and every checkpoint completes.
func encode(t *testing.T, story string) string {
	var out strings.Builder
	s := NewScript()
	for _, line := range strings.Split(story, "\n") {
		if line != "checkpoint" {
			_, err := s.Block([]string{line})
			require.NoError(t, err)
			continue
		}
		var img statemachine.Image
		s.model.Image(&img)
		fmt.Fprintf(&out, "%s\n\t%s\n\t%s\n", hex.EncodeToString(s.machine.(differential).AppendDelta(nil)), FormatImage(&img), withPayloads(img.Queue))
		if s.model.anchored {
			_, err := s.Block([]string{"snapshot", "complete"})
			require.NoError(t, err)
		}
	}
	return out.String()
}

// TestEncodingsAreKept: the bytes that any version has ever stored are read, and mean what they meant.
func TestEncodingsAreKept(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(encodingsDir, "format*", "*.txt"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), len(stories))
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		var img statemachine.Image
		for i := 0; i+2 < len(lines); i += 3 {
			delta, err := hex.DecodeString(lines[i])
			require.NoError(t, err)
			require.NoError(t, img.Apply(delta), "%s, line %d", file, i+1)
			require.Equal(t, strings.TrimSpace(lines[i+1]), FormatImage(&img), "%s, line %d", file, i+2)
			require.Equal(t, strings.TrimSpace(lines[i+2]), withPayloads(img.Queue), "%s, line %d", file, i+3)
			given, limits := cloneImage(&img), statemachine.DefaultLimits()
			s, err := statemachine.Restore(&limits, &given)
			require.NoError(t, err, "%s, line %d", file, i+1)
			require.NoError(t, s.Sound())
		}
		require.Zero(t, len(lines)%3, "%s: lines are left over", file)
	}
}

// TestEncodingIsKnown: what is written now is written under its format in testdata. To add the next format:
//
//  1. raise deltaFormat in statemachine/delta.go, and let Apply read the one before as well;
//  2. go test ./model -run TestEncodingIsKnown -golden, which writes a new folder and never an old one;
//  3. look at it, and commit it with the change.
func TestEncodingIsKnown(t *testing.T) {
	limits := statemachine.DefaultLimits()
	format, _ := binary.Uvarint(statemachine.New(&limits).AppendDelta(nil))
	folder := filepath.Join(encodingsDir, fmt.Sprint("format", format))
	if _, err := os.Stat(folder); *rewrite && os.IsNotExist(err) {
		require.NoError(t, os.MkdirAll(folder, 0o755))
		for name, story := range stories {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name+".txt"), []byte(encode(t, story)), 0o644))
		}
	}
	for name, story := range stories {
		want, err := os.ReadFile(filepath.Join(folder, name+".txt"))
		require.NoError(t, err, "format %d is not kept yet: see the comment of this test", format)
		require.Equal(t, string(want), encode(t, story),
			"%s: format %d is written with other bytes than it has: what is stored by now must stay readable. See the comment of this test", name, format)
	}
}
