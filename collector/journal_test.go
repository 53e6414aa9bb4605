package collector

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func openJournal(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := OpenJournal(dir)
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

func texts(records [][]byte) []string {
	list := []string{}
	for _, r := range records {
		list = append(list, string(r))
	}
	return list
}

func bytesOf(list ...string) (records [][]byte) {
	for _, s := range list {
		records = append(records, []byte(s))
	}
	return records
}

func TestJournalGoesOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	j := openJournal(t, dir)
	first, held := j.Held()
	require.Equal(t, uint64(1), first)
	require.Empty(t, held)
	require.NoError(t, j.Append([]byte("here"), bytesOf("one", "", "th\rree\x00")))
	require.NoError(t, j.Append([]byte("there"), bytesOf("four")))
	require.NoError(t, j.Acknowledge(2))
	require.NoError(t, j.Acknowledge(1), "late, and no news")
	require.NoError(t, j.Close())
	require.NoError(t, j.Close())
	require.ErrorIs(t, j.Append(nil, bytesOf("x")), ErrClosed)

	j = openJournal(t, dir)
	cut, file := j.Cut()
	require.Zero(t, cut)
	require.Empty(t, file)
	require.Equal(t, "there", string(j.Source()))
	first, held = j.Held()
	require.Equal(t, uint64(3), first)
	require.Equal(t, []string{"th\rree\x00", "four"}, texts(held))
	require.NoError(t, j.Finish())
	require.NoError(t, j.Acknowledge(4))
	require.NoError(t, j.Close())

	j = openJournal(t, dir)
	require.Empty(t, j.Source())
	first, held = j.Held()
	require.Equal(t, uint64(5), first, "numbers go on")
	require.Empty(t, held)
}

func TestJournalIsForOne(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	_, err := OpenJournal(dir)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, dir)
	require.NoError(t, j.Close())
	openJournal(t, dir)
}

// However a crash cuts the last write, what was appended before is there, and the numbers of what is cut are free.
func TestJournalTornAnywhere(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	require.NoError(t, j.Append([]byte("here"), bytesOf("one", "two")))
	require.NoError(t, j.Close())
	path := filepath.Join(dir, journalName)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	last := appendFrame(nil, frame{kind: kindRecords, number: 3, source: []byte("there")}, bytesOf("three"))
	cuts := 0
	for n := range len(last) {
		for _, torn := range [][]byte{last[:n], append(bytes.Clone(last[:n]), make([]byte, len(last)-n)...)} {
			require.NoError(t, os.WriteFile(path, append(bytes.Clone(whole), torn...), 0o600))
			j := openJournal(t, dir)
			cut, file := j.Cut()
			require.Equal(t, int64(len(torn)), cut, "cut at %d", n)
			require.Equal(t, "here", string(j.Source()))
			first, held := j.Held()
			require.Equal(t, uint64(1), first)
			require.Equal(t, []string{"one", "two"}, texts(held))
			require.NoError(t, j.Append(nil, bytesOf("3")))
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

// A bit that changed before the last frame is damage, wherever it is: nothing is cut, and the error says where.
func TestJournalDamagedInside(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	for _, record := range []string{"one", "two", "three"} {
		require.NoError(t, j.Append([]byte("source"), bytesOf(record)))
	}
	require.NoError(t, j.Close())
	path := filepath.Join(dir, journalName)
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
				_, err := OpenJournal(dir)
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

func TestJournalNonsense(t *testing.T) {
	ok := []byte(journalMagic)
	one := appendFrame(nil, frame{kind: kindRecords, number: 1}, bytesOf("one"))
	for name, text := range map[string][]byte{
		"empty":              {},
		"another file":       []byte("some text that is no journal"),
		"a number left out":  append(bytes.Clone(ok), appendFrame(nil, frame{kind: kindRecords, number: 2}, bytesOf("two"))...),
		"a number twice":     append(append(bytes.Clone(ok), one...), one...),
		"an unknown kind":    appendFrame(bytes.Clone(ok), frame{kind: '?'}, nil),
		"acknowledged ahead": appendFrame(append(bytes.Clone(ok), one...), frame{kind: kindAcknowledged, number: 2}, nil),
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, journalName), text, 0o600))
		_, err := OpenJournal(dir)
		require.ErrorContains(t, err, filepath.Join(dir, journalName), name)
		after, err := os.ReadFile(filepath.Join(dir, journalName))
		require.NoError(t, err)
		require.Equal(t, text, after, "%s: what can't be understood is left alone", name)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := OpenJournal(file)
	require.ErrorContains(t, err, file)
}

func TestJournalStaysSmall(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	record := make([]byte, 10_000)
	last := uint64(0)
	for range 500 {
		require.NoError(t, j.Append([]byte("source"), [][]byte{record, record}))
		last += 2
		require.NoError(t, j.Acknowledge(last-1))
	}
	require.Less(t, j.size, int64(2*journalFloor))
	require.NoError(t, j.Close())
	j = openJournal(t, dir)
	first, held := j.Held()
	require.Equal(t, last, first)
	require.Len(t, held, 1)
	require.Equal(t, "source", string(j.Source()))
}

// Whatever is done, and however often it is opened anew or rewritten, a journal holds what a simple list would.
func TestJournalAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal-")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		j, err := OpenJournal(dir)
		require.NoError(t, err)
		defer func() { j.Close() }()
		first, held, source := uint64(1), []string{}, ""
		actions := map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				list := rapid.SliceOfN(rapid.StringN(0, 5, -1), 1, 4).Draw(t, "records")
				source = fmt.Sprint("source ", len(held))
				require.NoError(t, j.Append([]byte(source), bytesOf(list...)))
				held = append(held, list...)
			},
			"acknowledge": func(t *rapid.T) {
				n := rapid.IntRange(0, len(held)).Draw(t, "records")
				first, held = first+uint64(n), held[n:]
				require.NoError(t, j.Acknowledge(first-1))
			},
			"finish":  func(t *rapid.T) { source = ""; require.NoError(t, j.Finish()) },
			"rewrite": func(t *rapid.T) { require.NoError(t, j.rewrite()) },
			"reopen": func(t *rapid.T) {
				require.NoError(t, j.Close())
				j, err = OpenJournal(dir)
				require.NoError(t, err)
				gotFirst, got := j.Held()
				require.Equal(t, first, gotFirst)
				require.Equal(t, append([]string{}, held...), texts(got))
			},
		}
		names := slices.Sorted(maps.Keys(actions))
		for range rapid.IntRange(1, 12).Draw(t, "steps") { // few: each waits for the disk
			actions[rapid.SampledFrom(names).Draw(t, "action")](t)
			require.Equal(t, source, string(j.Source()))
		}
		actions["reopen"](t)
	})
}
