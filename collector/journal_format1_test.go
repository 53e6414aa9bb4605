package collector

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// frame1 appends a frame as the program that wrote format 1 did.
func frame1(dst []byte, kind byte, number uint64, source string, records ...string) []byte {
	body := binary.AppendUvarint([]byte{kind}, number)
	body = protocol.AppendRecord(body, []byte(source))
	for _, r := range records {
		body = protocol.AppendRecord(body, []byte(r))
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(body)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(dst, body...)
}

// A journal of format 1 goes on: its numbers, what is held, and where the source ended.
func TestJournalFormat1(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal")
	text := frame1([]byte("tidebuf\x01"), 'A', 6, "")
	text = frame1(text, 'R', 7, "here", "seven", "", "ni\rne")
	text = frame1(text, 'A', 7, "")
	text = frame1(text, 'R', 10, "there", "ten")
	torn := frame1(nil, 'R', 11, "lost", "eleven")
	torn = torn[:len(torn)-2]
	require.NoError(t, os.WriteFile(path, append(bytes.Clone(text), torn...), 0o600))
	j := openJournal(t, dir)
	cut, file := j.Cut()
	require.Equal(t, int64(len(torn)), cut)
	require.Equal(t, path+".cut-1", file)
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, torn, kept)
	require.NoFileExists(t, path)
	require.Equal(t, "there", string(j.Source()))
	require.Equal(t, uint64(3), j.Records())
	numbers := j.Numbers()
	require.True(t, numbers.Known)
	require.Zero(t, numbers.Offset)
	require.Regexp(t, "^[0-9a-f]{32}$", numbers.Instance)
	requireHeld(t, j, "8:", "9:ni\rne", "10:ten")
	require.NoError(t, appends(j, "", "eleven"))
	require.NoError(t, j.Close())

	// A crash before the old file was gone changes nothing.
	require.NoError(t, os.WriteFile(path, text, 0o600))
	j = openJournal(t, dir)
	require.NoFileExists(t, path)
	require.Equal(t, numbers, j.Numbers())
	requireHeld(t, j, "8:", "9:ni\rne", "10:ten", "11:eleven")
}

// The old file is there until what was made of it is known to be whole.
func TestJournalFormat1Kept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal")
	text := frame1([]byte("tidebuf\x01"), 'R', 1, "", "one")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	segment := (&Journal{dir: dir}).path(1)
	require.NoError(t, os.WriteFile(segment, []byte("damaged"), 0o600))
	_, err := OpenJournal(dir, JournalOptions{})
	require.ErrorContains(t, err, segment)
	require.FileExists(t, path)
}

// Of one that holds nothing, the numbers and the source go on.
func TestJournalFormat1Empty(t *testing.T) {
	dir := t.TempDir()
	text := frame1([]byte("tidebuf\x01"), 'A', 41, "")
	text = frame1(text, 'S', 0, "here")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "journal"), text, 0o600))
	j := openJournal(t, dir)
	first, next := j.Held()
	require.Equal(t, [2]uint64{42, 42}, [2]uint64{first, next})
	require.Equal(t, "here", string(j.Source()))
	requireHeld(t, j)
}

// What is damaged or makes no sense is left alone.
func TestJournalFormat1Damaged(t *testing.T) {
	head := []byte("tidebuf\x01")
	two := frame1(frame1(bytes.Clone(head), 'R', 1, "", "one"), 'R', 2, "", "two")
	cases := map[string][]byte{
		"another file":       []byte("some text"),
		"a number left out":  frame1(bytes.Clone(head), 'R', 2, "", "two"),
		"an unknown kind":    frame1(bytes.Clone(head), '?', 1, ""),
		"acknowledged ahead": frame1(bytes.Clone(two), 'A', 3, ""),
	}
	for at := len(head); at < len(head)+20; at++ {
		damaged := bytes.Clone(two)
		damaged[at] ^= 1
		cases[fmt.Sprint("byte ", at)] = damaged
	}
	require.Len(t, frame1(nil, 'R', 1, "", "one"), 15)
	for at := 15 + len(head); at < len(head)+20; at++ {
		delete(cases, fmt.Sprint("byte ", at)) // of the last frame: torn
	}
	for name, text := range cases {
		dir := t.TempDir()
		path := filepath.Join(dir, "journal")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		_, err := OpenJournal(dir, JournalOptions{})
		require.ErrorContains(t, err, path+": ", name)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, after, name)
		require.Empty(t, files(t, dir), name)
	}
}
