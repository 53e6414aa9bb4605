package fuzz

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/collector"
	"github.com/tidemark/tidemark/protocol"
)

// segmentStart begins each segment of a journal, and frameHead is the length and the check before each body in it, as
// journal_frame.go of package collector has them.
const (
	segmentStart = "tidebuf\x02"
	frameHead    = 8
)

// held is what a journal says when it is opened.
type held struct {
	first       uint64
	batches     []string // as batchText writes them
	source      string
	numbers     collector.Numbers
	unconfirmed uint64
}

func (h held) next() uint64 { return h.first + uint64(len(h.batches)) }

func batchText(b collector.Batch) string { return fmt.Sprintf("%d %q", b.Records, b.Payload) }

// batchOf makes a batch of records.
func batchOf(records ...string) collector.Batch {
	b := collector.Batch{Records: len(records)}
	for _, r := range records {
		b.Payload = protocol.AppendRecord(b.Payload, []byte(r))
	}
	return b
}

func open(dir string) (*collector.Journal, error) {
	return collector.OpenJournal(dir, collector.JournalOptions{SegmentBytes: segmentBytes, Random: strings.NewReader(strings.Repeat("r", 64))})
}

// takeHeld reads a journal that was just opened: it yields all that it says it holds, with as many records.
func takeHeld(t testing.TB, j *collector.Journal) held {
	t.Helper()
	first, next := j.Held()
	require.LessOrEqual(t, first, next)
	require.LessOrEqual(t, next, uint64(protocol.MaxID), "it has to fit into a HELLO")
	h := held{first: first, batches: []string{}, source: string(j.Source()), numbers: j.Numbers(), unconfirmed: j.Unconfirmed()}
	records := uint64(0)
	for {
		id, b, ok, err := j.Read()
		require.NoError(t, err)
		if !ok {
			break
		}
		require.Equal(t, first+uint64(len(h.batches)), id)
		require.NoError(t, protocol.CheckRecords(b.Payload, b.Records))
		h.batches = append(h.batches, batchText(b))
		records += uint64(b.Records)
	}
	require.Equal(t, next-first, uint64(len(h.batches)))
	require.Equal(t, j.Records(), records)
	return h
}

// damage is where a journal is wrong, as its error says: at is -1 when the file is none of a journal.
type damage struct {
	name string
	at   int
}

var (
	damagedAt = regexp.MustCompile(`^buffer [^ ]*: ([^ ]*): damaged at offset (\d+): `)
	notOne    = regexp.MustCompile(`^buffer [^ ]*: ([^ ]*): is not a (segment|journal) of this program`)
)

// openJournal opens a journal of these files. When it is refused the error says where, and all is left alone. Otherwise
// what was cut off is kept, and the journal goes on with what it held: written back, it is the same.
//
// Allocated are the files, once whole and three times at most in chunks, and for each batch, which takes 3 bytes at
// least, its number of records: 8 bytes in a list that grows as append does, to five times that in all. In format 1 a
// record takes 1 byte, its place in such a list 24, and the segment made of it 3 bytes, written in such a list and read
// again. The fixed part is for names, files and folders.
func openJournal(t testing.TB, dir string, files folder) (h held, cut int, wrong *damage) {
	t.Helper()
	perByte := 24
	if _, ok := files[format1Name]; ok {
		perByte = 320
	}
	bounded(t, files.size(), perByte, 32<<10, func() {
		files.put(t, dir)
		if j, err := open(dir); err == nil {
			for ok := true; ok && err == nil; {
				_, _, ok, err = j.Read()
			}
			require.NoError(t, j.Close())
		}
	})
	files.put(t, dir)
	j, err := open(dir)
	after := takeFolder(t, dir)
	if err != nil {
		require.Equal(t, files, after, "what is damaged is left alone: %v", err)
		return held{}, 0, damageOf(t, files, dir, err)
	}
	requireKept(t, j, files, after)
	h = takeHeld(t, j)
	goOn(t, j, dir, h)
	n, _ := j.Cut()
	return h, int(n), nil
}

// damageOf takes the file and the offset out of an error.
func damageOf(t testing.TB, files folder, dir string, err error) *damage {
	t.Helper()
	if found := damagedAt.FindStringSubmatch(err.Error()); found != nil {
		at, err := strconv.Atoi(found[2])
		require.NoError(t, err)
		name := filepath.Base(found[1])
		require.Equal(t, filepath.Join(dir, name), found[1])
		require.Contains(t, files, name)
		require.LessOrEqual(t, at, len(files[name]))
		return &damage{name, at}
	}
	found := notOne.FindStringSubmatch(err.Error())
	require.NotNil(t, found, "no file or no offset: %v", err)
	name := filepath.Base(found[1])
	require.Contains(t, files, name)
	start := segmentStart
	if name == format1Name {
		start = format1Start
	}
	require.False(t, bytes.HasPrefix(files[name], []byte(start)))
	return &damage{name, -1}
}

// requireKept demands that nothing was lost when a journal was opened: what was cut off is in a file of its own.
func requireKept(t testing.TB, j *collector.Journal, before, after folder) {
	t.Helper()
	got := maps.Clone(after)
	if cut, file := j.Cut(); cut > 0 {
		name := filepath.Base(file)
		require.Len(t, after[name], int(cut))
		delete(got, name)
		of, _, _ := strings.Cut(name, ".cut-")
		got[of] = append(bytes.Clone(got[of]), after[name]...)
	}
	require.NotContains(t, after, format1Name, "it is converted")
	if text, ok := before[format1Name]; ok && len(before) == 1 {
		cut, _ := j.Cut()
		require.True(t, bytes.HasSuffix(text, got[format1Name]), "what is cut off is the end")
		require.Len(t, got[format1Name], int(cut))
		return
	}
	for name, data := range before {
		if name != format1Name {
			require.True(t, bytes.Equal(data, got[name]), "%s is as it was, or its end is kept", name)
		}
	}
}

// goOn appends to the journal, acknowledges its first batch, says how the numbers go on, and opens it anew after each.
func goOn(t testing.TB, j *collector.Journal, dir string, h held) {
	t.Helper()
	reopen := func() {
		t.Helper()
		require.NoError(t, j.Close())
		var err error
		j, err = open(dir)
		require.NoError(t, err)
		require.Equal(t, h, takeHeld(t, j))
	}
	next := h.next()
	left := protocol.MaxID - next
	two := []collector.Batch{batchOf("more"), batchOf("", "most")}
	if left < 2 { // then it is not stored, not even in part
		_, err := j.Append(context.Background(), []byte("next"), two)
		require.Error(t, err, "%d ids are left", left)
		reopen()
		two = two[:left]
	}
	if len(two) > 0 {
		id, err := j.Append(context.Background(), []byte("next"), two)
		require.NoError(t, err)
		require.Equal(t, next, id)
		h.source = "next"
		for _, b := range two {
			h.batches = append(h.batches, batchText(b))
		}
	}
	if len(h.batches) > 0 {
		_, err := j.Acknowledge(h.first)
		require.NoError(t, err)
		h.first, h.batches = h.first+1, h.batches[1:]
		h.unconfirmed = max(h.unconfirmed, h.first)
	}
	reopen()
	h.numbers.Known, h.numbers.Offset = true, -3
	require.NoError(t, j.Number(h.numbers))
	require.NoError(t, j.Finish())
	h.source, h.unconfirmed = "", h.next()
	reopen()
	require.NoError(t, j.Close())
}

// FuzzJournal: any bytes in the place of a segment: among good ones, alone with any name, or beside a file of format 1 that
// a crash left when it was converted.
func FuzzJournal(f *testing.F) {
	w := writeJournal(f)
	dir := filepath.Join(memoryDir(f), "j")
	for i, name := range w.names {
		data := w.files[name]
		f.Add(byte(i), uint64(1), data)
		f.Add(byte(3), uint64(1), data)
		f.Add(byte(i), uint64(1), data[:len(data)-1])
	}
	f.Add(byte(1), uint64(1), w.files[w.names[0]])
	f.Add(byte(3), uint64(protocol.MaxID), []byte(segmentStart))
	f.Add(byte(2), uint64(0), []byte{})
	f.Add(byte(4), uint64(1), w.files[w.names[0]])
	f.Add(byte(4), uint64(2), w.files[w.names[0]])
	f.Fuzz(func(t *testing.T, place byte, first uint64, data []byte) {
		files := folder{segmentName(first & protocol.MaxID): data}
		switch i := int(place % 5); {
		case i < len(w.names):
			files = maps.Clone(w.files)
			files[w.names[i]] = data
		case i == 4:
			files[format1Name] = framed(format1Start, []byte("R\x01\x00\x03one"))
		}
		openJournal(t, dir, files)
	})
}
