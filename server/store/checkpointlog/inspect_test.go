package checkpointlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// inspected runs Inspect on a directory; its name is left out of what comes back.
func inspected(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, Inspect(dir, &out))
	return strings.ReplaceAll(out.String(), dir+"/", "")
}

// Inspect tells of a log while a server has it.
func TestInspectWhileInUse(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir, Options{})
	require.NoError(t, err)
	load(t, l)
	c := checkpoint(41)
	img := image(7)
	img.Missing = []statemachine.Range{{First: 8, Last: 8}, {First: 11, Last: 15}}
	img.Queue = []statemachine.Batch{{ID: 9, Records: 1, Payload: make([]byte, 100)}, {ID: 10, Records: 1, Payload: make([]byte, 23)}}
	c.Changes = append(c.Changes, store.Change{Collector: "edge 7", Delta: img.AppendWhole(nil)})
	require.NoError(t, l.Save(background, c))
	for _, name := range []string{"edge 7", "no image"} {
		require.NoError(t, l.Anchor(background, seatChange(name, 2)))
	}
	require.Equal(t, `file        checkpoint.log
format      2
bytes       490
frames      3
checkpoint  41
position    position 41
state       good

COLLECTOR   INSTANCE      EPOCH  WATERMARK  RECEIVED  MISSING  DIGESTS  QUEUED  QUEUED BYTES
"a"         -             1      41         43        42-43    1        0       0
"edge 7"    "instance 2"  1      7          9         8 11-15  1        2       123
"no image"  "instance 2"  0      0          0         -        0        0       0
`, inspected(t, dir))
	require.NoError(t, l.Close())
	require.Contains(t, inspected(t, filepath.Join(dir, FileName)), "checkpoint  41\n")
}

func TestInspectTellsWhatIsWrong(t *testing.T) {
	d, ends := written(t, 3)
	data := d.Files()[path]
	dir := t.TempDir()
	put := func(b []byte) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), b, 0o600))
		text := inspected(t, dir)
		after, err := os.ReadFile(filepath.Join(dir, FileName))
		require.NoError(t, err)
		require.Equal(t, string(b), string(after), "Inspect changed the log")
		return text
	}
	require.Contains(t, put(data[:len(data)-1]), "checkpoint  3\n")
	require.Contains(t, put(data[:len(data)-1]), "state       a write goes on or was cut short: the mark of frame 3 is incomplete")
	require.Contains(t, put(data[:len(data)-headSize]), "state       the last frame has no mark yet\n")
	require.Contains(t, put(data[:ends[2]+40]), "checkpoint  2\n")

	data[ends[1]+int64(headSize)] ^= 1
	text := put(data)
	require.Contains(t, text, "checkpoint  1\n")
	require.Contains(t, text, "damaged at offset "+fmt.Sprint(ends[1])+": frame 2 fails its check")
	require.Contains(t, text, "below is what comes before")
	_, info, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, ends[1], info.Damage.Offset)
}

func TestInspectOfNothing(t *testing.T) {
	require.ErrorIs(t, Inspect(t.TempDir(), nil), os.ErrNotExist)
}

func TestRanges(t *testing.T) {
	require.Equal(t, "-", ranges(nil))
	var list []statemachine.Range
	for i := range uint64(10) {
		list = append(list, statemachine.Range{First: 3 * i, Last: 3*i + i%2})
	}
	require.Equal(t, "0 3-4 6 9-10 12 15-16 18 21-22 and 2 more", ranges(list))
}
