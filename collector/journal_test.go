package collector

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

func openJournal(t *testing.T, dir string) *Journal {
	t.Helper()
	return openSmall(t, dir, JournalOptions{})
}

func openSmall(t *testing.T, dir string, o JournalOptions) *Journal {
	t.Helper()
	j, err := OpenJournal(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// batchOf makes a batch of records.
func batchOf(records ...string) Batch {
	b := Batch{Records: len(records)}
	for _, r := range records {
		b.Payload = protocol.AppendRecord(b.Payload, []byte(r))
	}
	return b
}

// textOf is a batch as text: its records with a comma between them.
func textOf(b Batch) string {
	var list []string
	for r, err := range protocol.Records(b.Payload) {
		if err != nil {
			return err.Error()
		}
		list = append(list, string(r))
	}
	if len(list) != b.Records {
		return fmt.Sprint(list, " are not ", b.Records)
	}
	return strings.Join(list, ",")
}

// appends puts one batch for each text into the journal; a comma is between the records of one.
func appends(j *Journal, source string, texts ...string) error {
	var batches []Batch
	for _, text := range texts {
		batches = append(batches, batchOf(strings.Split(text, ",")...))
	}
	_, err := j.Append(context.Background(), []byte(source), batches)
	return err
}

func acknowledge(j *Journal, watermark uint64) error {
	_, err := j.Acknowledge(watermark)
	return err
}

// readAll reads what is left, as id:text.
func readAll(j *Journal) (list []string, err error) {
	list = []string{}
	for {
		id, b, ok, err := j.Read()
		if err != nil || !ok {
			return list, err
		}
		list = append(list, fmt.Sprint(id, ":", textOf(b)))
	}
}

func requireHeld(t *testing.T, j *Journal, want ...string) {
	t.Helper()
	got, err := readAll(j)
	require.NoError(t, err)
	require.Equal(t, append([]string{}, want...), got)
}

func TestJournalGoesOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	j := openJournal(t, dir)
	first, next := j.Held()
	require.Equal(t, [2]uint64{1, 1}, [2]uint64{first, next})
	numbers := j.Numbers()
	require.Regexp(t, "^[0-9a-f]{32}$", numbers.Instance)
	require.False(t, numbers.Known)
	require.NoError(t, appends(j, "here", "one", "", "th\rree\x00"))
	require.NoError(t, appends(j, "there", "four,4,IV"))
	require.NoError(t, acknowledge(j, 2))
	require.NoError(t, acknowledge(j, 1), "late, and no news")
	numbers.Known, numbers.Offset = true, -7
	require.NoError(t, j.Number(numbers))
	require.NoError(t, j.Close())
	require.NoError(t, j.Close())
	require.ErrorIs(t, appends(j, "", "x"), ErrClosed)

	j = openJournal(t, dir)
	cut, file := j.Cut()
	require.Zero(t, cut)
	require.Empty(t, file)
	require.Equal(t, "there", string(j.Source()))
	require.Equal(t, numbers, j.Numbers())
	require.Equal(t, uint64(4), j.Records())
	first, next = j.Held()
	require.Equal(t, [2]uint64{3, 5}, [2]uint64{first, next})
	requireHeld(t, j, "3:th\rree\x00", "4:four,4,IV")
	require.NoError(t, j.Finish())
	require.NoError(t, acknowledge(j, 4))
	require.NoError(t, j.Renew())
	renewed := j.Numbers()
	require.NotEqual(t, numbers.Instance, renewed.Instance)
	require.False(t, renewed.Known)
	require.NoError(t, j.Close())

	j = openJournal(t, dir)
	require.Empty(t, j.Source())
	require.Equal(t, renewed, j.Numbers())
	first, next = j.Held()
	require.Equal(t, [2]uint64{5, 5}, [2]uint64{first, next}, "ids go on")
	requireHeld(t, j)
}

func TestJournalIsForOne(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	_, err := OpenJournal(dir, JournalOptions{})
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, dir)
	require.NoError(t, j.Close())
	openJournal(t, dir)
}

// However a crash cuts the last write, what was appended before is there, and the ids of what is cut are free.
func TestJournalTornAnywhere(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	require.NoError(t, appends(j, "here", "one", "two"))
	path := j.path(1)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, appends(j, "there", "three,3"))
	require.NoError(t, j.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	last := after[len(before):]
	require.NotEmpty(t, last)
	cuts := 0
	for n := range len(last) {
		for _, torn := range [][]byte{last[:n], append(bytes.Clone(last[:n]), make([]byte, len(last)-n)...)} {
			require.NoError(t, os.WriteFile(path, append(bytes.Clone(before), torn...), 0o600))
			j := openJournal(t, dir)
			cut, file := j.Cut()
			require.Equal(t, int64(len(torn)), cut, "cut at %d", n)
			require.Equal(t, "here", string(j.Source()))
			require.NoError(t, appends(j, "", "3"))
			requireHeld(t, j, "1:one", "2:two", "3:3")
			require.NoError(t, j.Close())
			if len(torn) > 0 {
				cuts++
				require.Equal(t, fmt.Sprint(path, ".cut-", cuts), file, "none is overwritten")
				kept, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, torn, kept)
			}
		}
	}
}

// Of a write that was not synced any part may have reached the disk. What is in its records is no frame, whatever it looks
// like; a whole frame behind, at its place, is one that was written when all before it was durable.
func TestJournalTornInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	require.NoError(t, appends(j, "", "one"))
	start := int(j.current().size)
	lookalike := appendFrame(nil, frame{kind: kindAcknowledged, at: int64(start)})
	require.NoError(t, appends(j, "", "two", string(lookalike)))
	next := int(j.current().size)
	require.NoError(t, appends(j, "", "three"))
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(j.path(1))
	require.NoError(t, err)
	torn := bytes.Clone(whole)
	torn[start] ^= 1
	require.NoError(t, os.WriteFile(j.path(1), torn[:next], 0o600))
	j = openJournal(t, dir)
	cut, _ := j.Cut()
	require.Equal(t, int64(next-start), cut)
	requireHeld(t, j, "1:one")
	require.NoError(t, j.Close())

	require.NoError(t, os.WriteFile(j.path(1), torn, 0o600))
	_, err = OpenJournal(dir, JournalOptions{})
	require.ErrorContains(t, err, fmt.Sprintf("damaged at offset %d: the frame is not whole, but one at offset %d was written after it", start, next))
}

// A mark of the watermark is not synced; the next frame takes its place and says the watermark, so that marks add nothing.
func TestJournalMarks(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	for range 100 {
		require.NoError(t, appends(j, "", "x"))
	}
	size, _ := j.Usage()
	for id := range uint64(99) {
		require.NoError(t, acknowledge(j, id+1))
	}
	used, _ := j.Usage()
	require.Less(t, used, size+30)
	copied, err := os.ReadFile(j.path(1))
	require.NoError(t, err)
	require.Len(t, copied, int(used))
	require.NoError(t, appends(j, "", "y"))
	require.NoError(t, j.Close())
	j = openJournal(t, dir)
	requireHeld(t, j, "100:x", "101:y")
	require.NoError(t, j.Close())
	require.NoError(t, os.WriteFile(j.path(1), copied, 0o600))
	j = openJournal(t, dir)
	requireHeld(t, j, "100:x")
	require.NoError(t, j.Close())
	require.NoError(t, os.Truncate(j.path(1), used-1))
	j = openJournal(t, dir)
	first, _ := j.Held()
	require.Equal(t, uint64(1), first, "only the watermark is gone")
}

// A bit that changed before the last frame is damage, wherever it is: nothing is cut, and the error says where.
func TestJournalDamagedInside(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	for _, record := range []string{"one", "two", "three"} {
		require.NoError(t, appends(j, "source", record))
	}
	require.NoError(t, j.Close())
	path := j.path(1)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	starts := []int{}
	for at := len(journalMagic); at < len(whole); {
		starts = append(starts, at)
		_, size, err := parseFrame(whole[at:])
		require.NoError(t, err)
		at += size
	}
	require.Greater(t, len(starts), 3)
	for n, start := range starts[:len(starts)-1] {
		for at := start; at < starts[n+1]; at++ {
			for _, bit := range []byte{1, 0x80} {
				damaged := bytes.Clone(whole)
				damaged[at] ^= bit
				require.NoError(t, os.WriteFile(path, damaged, 0o600))
				_, err := OpenJournal(dir, JournalOptions{})
				require.ErrorContains(t, err, fmt.Sprintf("%s: damaged at offset %d:", path, start), "byte %d", at)
				after, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, damaged, after)
			}
		}
	}
	cuts, err := filepath.Glob(path + ".cut*")
	require.NoError(t, err)
	require.Empty(t, cuts)
}

// Only the last segment may end in the middle of a frame, and none may be missing.
func TestJournalDamagedSegments(t *testing.T) {
	dir := t.TempDir()
	j := openSmall(t, dir, JournalOptions{SegmentBytes: 1})
	for _, record := range []string{"one", "two", "three"} {
		require.NoError(t, appends(j, "", record))
	}
	require.Len(t, j.segments, 3)
	require.NoError(t, j.Close())
	text, err := os.ReadFile(j.path(2))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(j.path(2), int64(len(text)-1)))
	_, err = OpenJournal(dir, JournalOptions{})
	require.ErrorContains(t, err, j.path(2)+": damaged at offset ")
	require.ErrorContains(t, err, "a later segment is there")
	require.NoError(t, os.Remove(j.path(2)))
	_, err = OpenJournal(dir, JournalOptions{})
	require.ErrorContains(t, err, "begins with id 3, and 2 comes next: a segment is missing")
	require.NoError(t, os.WriteFile(j.path(2), text, 0o600))
	require.NoError(t, os.WriteFile(j.path(3), []byte(journalMagic), 0o600))
	_, err = OpenJournal(dir, JournalOptions{})
	require.ErrorContains(t, err, "does not say where it begins")
}

// A segment that lost its last frame is found by the next one, also when there were no batches in it.
func TestJournalLostFrame(t *testing.T) {
	for name, change := range map[string]func(*Journal) error{
		"numbers": func(j *Journal) error {
			return j.Number(Numbers{Instance: j.Numbers().Instance, Known: true, Offset: 3})
		},
		"source": func(j *Journal) error { return j.Finish() },
	} {
		dir := t.TempDir()
		j := openSmall(t, dir, JournalOptions{SegmentBytes: 1})
		require.NoError(t, appends(j, "source", "one"))
		before := j.current().size
		require.NoError(t, change(j))
		require.NoError(t, appends(j, "", "two"))
		require.NoError(t, j.Close())
		require.NoError(t, openSmall(t, dir, JournalOptions{}).Close(), name)
		require.NoError(t, os.Truncate(j.path(1), before))
		_, err := OpenJournal(dir, JournalOptions{})
		require.ErrorContains(t, err, j.path(2)+": damaged at offset 8: it begins with other numbers", name)
	}
}

func TestJournalNonsense(t *testing.T) {
	numbers := Numbers{Instance: strings.Repeat("0", 32)}
	add := func(text []byte, f frame) []byte {
		f.at = int64(len(text))
		return appendFrame(text, f)
	}
	head := func(number, watermark uint64) []byte {
		j := Journal{next: number, watermark: watermark, numbers: numbers}
		return add([]byte(journalMagic), j.head())
	}
	batches := func(text []byte, number uint64, entries ...Batch) []byte {
		f := frame{kind: kindBatches, number: number}
		for _, b := range entries {
			f.rest = appendEntry(f.rest, b)
		}
		return add(text, f)
	}
	one := batchOf("one")
	for name, text := range map[string][]byte{
		"empty":                {},
		"another file":         []byte("some text that is no journal"),
		"a later format":       []byte("tidebuf\x03 and more"),
		"no head":              batches([]byte(journalMagic), 1, one),
		"another head":         head(2, 1),
		"a watermark too high": head(1, 1),
		"an id left out":       batches(head(1, 0), 2, one),
		"an id twice":          batches(batches(head(1, 0), 1, one), 1, one),
		"an unknown kind":      add(head(1, 0), frame{kind: '?'}),
		"acknowledged ahead":   add(batches(head(1, 0), 1, one), frame{kind: kindAcknowledged, watermark: 2}),
		"another place":        appendFrame(head(1, 0), frame{kind: kindSource, at: 7}),
		"no records":           batches(head(1, 0), 1, Batch{0, one.Payload}),
		"other records":        batches(head(1, 0), 1, Batch{2, one.Payload}),
		"half an entry":        add(head(1, 0), frame{kind: kindBatches, number: 1, rest: []byte{1, 9}}),
		"half numbers":         add(head(1, 0), frame{kind: kindNumbers, rest: numbers.append(nil)[:17]}),
	} {
		dir := t.TempDir()
		path := (&Journal{dir: dir}).path(1)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		_, err := OpenJournal(dir, JournalOptions{})
		require.ErrorContains(t, err, path, name)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, after, "%s: what can't be understood is left alone", name)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := OpenJournal(file, JournalOptions{})
	require.ErrorContains(t, err, file)
	_, err = OpenJournal(t.TempDir(), JournalOptions{MaxBytes: -1})
	require.ErrorContains(t, err, "MaxBytes -1, allowed is at least 1")
	_, err = OpenJournal(t.TempDir(), JournalOptions{Random: strings.NewReader("short")})
	require.ErrorContains(t, err, "no random bytes")
}
