package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/collector"
)

const segmentBytes = 150 // so that a few batches fill a segment

// journalFrame is one frame of a good journal.
type journalFrame struct {
	end  int  // where it ends in its segment
	held held // what the journal holds from then on
}

// writtenJournal is a good journal of three segments.
type writtenJournal struct {
	files  folder
	names  []string
	frames [3][]journalFrame
	last   held
}

// journalWriter writes a journal, and knows what it has to hold.
type journalWriter struct {
	t         testing.TB
	dir       string
	j         *collector.Journal
	now       held
	confirmed bool // in this life of the process
	stored    bool // an unconfirmed batch is
	durable   int  // of the current segment; a mark of the watermark behind it makes way for the next frame
	w         writtenJournal
}

// note takes down the frames that were just written: one, and the head of a new segment before it.
func (s *journalWriter) note(before held, synced bool) {
	t := s.t
	files := takeFolder(t, s.dir)
	names := slices.Sorted(maps.Keys(files))
	if len(names) > len(s.w.names) {
		data := files[names[len(names)-1]]
		head := len(segmentStart) + frameHead + int(binary.LittleEndian.Uint32(data[len(segmentStart):]))
		s.w.frames[len(s.w.names)] = []journalFrame{{head, before}}
		s.durable = head
	}
	s.w.files, s.w.names, s.w.last = files, names, s.now
	s.w.last.batches = slices.Clone(s.now.batches)
	frames := &s.w.frames[len(names)-1]
	end := len(files[names[len(names)-1]])
	for (*frames)[len(*frames)-1].end > s.durable {
		*frames = (*frames)[:len(*frames)-1]
	}
	if end > s.durable {
		*frames = append(*frames, journalFrame{end, s.w.last})
	}
	if synced {
		s.durable = end
	}
}

func (s *journalWriter) append(source string, batches ...collector.Batch) {
	before := s.w.last
	next := s.now.next()
	id, err := s.j.Append(context.Background(), []byte(source), batches)
	require.NoError(s.t, err)
	require.Equal(s.t, next, id)
	for _, b := range batches {
		s.now.batches = append(s.now.batches, batchText(b))
	}
	s.now.source = source
	if s.confirmed {
		s.now.unconfirmed = next + uint64(len(batches))
	} else if !s.stored {
		s.stored, s.now.unconfirmed = true, max(next, s.now.first)
	}
	s.note(before, true)
}

func (s *journalWriter) acknowledge(watermark uint64) {
	_, err := s.j.Acknowledge(watermark)
	require.NoError(s.t, err)
	s.now.batches = s.now.batches[watermark+1-s.now.first:]
	s.now.first = watermark + 1
	s.now.unconfirmed = max(s.now.unconfirmed, s.now.first)
	s.note(held{}, false)
}

func (s *journalWriter) number(n collector.Numbers) {
	require.NoError(s.t, s.j.Number(n))
	s.now.numbers, s.now.unconfirmed = n, s.now.next()
	s.confirmed, s.stored = true, false
	s.note(held{}, true)
}

func (s *journalWriter) finish() {
	require.NoError(s.t, s.j.Finish())
	s.now.source = ""
	s.note(held{}, true)
}

// open is the start of a process; all there is is durable then.
func (s *journalWriter) open() {
	var err error
	s.j, err = open(s.dir)
	require.NoError(s.t, err)
	s.confirmed = false
	if s.w.names == nil {
		s.now = held{first: 1, batches: []string{}, numbers: s.j.Numbers(), unconfirmed: 1}
	}
	require.Equal(s.t, s.now, takeHeld(s.t, s.j))
	if s.w.names != nil {
		frames := s.w.frames[len(s.w.names)-1]
		s.durable = frames[len(frames)-1].end
	}
	s.note(s.now, true)
}

func writeJournal(t testing.TB) writtenJournal {
	s := &journalWriter{t: t, dir: filepath.Join(memoryDir(t), "j")}
	s.open()
	s.append("here", batchOf("one", ""), batchOf("th\rree\x00"), batchOf("3"), batchOf("4"))
	s.append("there", batchOf("RRRRRRRRRR"))
	s.acknowledge(1)
	s.append("there", batchOf("six"))
	s.number(collector.Numbers{Instance: "00112233445566778899aabbccddeeff", Known: true, Offset: 5})
	require.Len(t, s.w.names, 1)
	s.append("A", batchOf("seven", "7"), batchOf("eight"), batchOf("BBBBBBBBBBBBBBBBBBBBB"))
	s.acknowledge(2)
	s.append("B", batchOf("HUBASN"))
	s.finish()
	require.NoError(t, s.j.Close())
	s.open()
	s.append("", batchOf("eleven"))
	s.acknowledge(3)
	s.append("C", batchOf("twelve"))
	s.append("D", batchOf("", ""), batchOf("last but two"))
	s.acknowledge(4)
	s.append("E", batchOf("last but one"))
	s.finish()
	s.append("F", batchOf("last"))
	s.acknowledge(5)
	require.NoError(t, s.j.Close())
	require.Len(t, s.w.names, 3)
	for i, name := range s.w.names {
		require.Equal(t, len(s.w.files[name]), s.w.frames[i][len(s.w.frames[i])-1].end)
		require.Greater(t, len(s.w.frames[i]), 4)
	}
	return s.w
}

// before tells whether a segment that begins as other says can follow: nothing is missing between them but the watermark,
// which it says.
func (h held) before(other held) bool {
	return h.next() == other.next() && h.source == other.source && h.numbers == other.numbers
}

// expect tells what a journal is read as of which these bytes stand in the place of segment i: what it holds, and how
// many bytes are cut off, or where it is wrong.
func (w *writtenJournal) expect(i int, data []byte) (h held, cut int, wrong *damage) {
	name, good, frames := w.names[i], w.files[w.names[i]], w.frames[i]
	last := i == len(w.names)-1
	same := 0
	for same < min(len(data), len(good)) && data[same] == good[same] {
		same++
	}
	end, whole := len(segmentStart), 0 // of the frames that are as they were written
	for ; whole < len(frames) && frames[whole].end <= same; whole++ {
		end = frames[whole].end
	}
	switch {
	case same < len(segmentStart):
		return held{}, 0, &damage{name, -1}
	case whole == 0 || !last && len(data) > end:
		return held{}, 0, &damage{name, end}
	case !last && !frames[whole-1].held.before(frames[len(frames)-1].held):
		return held{}, 0, &damage{w.names[i+1], len(segmentStart)}
	case !last:
		return w.last, 0, nil
	}
	for k := whole + 1; k < len(frames); k++ {
		from, to := frames[k-1].end, frames[k].end
		if to <= len(data) && bytes.Equal(data[from:to], good[from:to]) {
			return held{}, 0, &damage{name, end}
		}
	}
	return frames[whole-1].held, len(data) - end, nil
}

// FuzzJournalDamage: a journal of which bytes of one segment changed, or its end is missing, is read as the writes before
// that when they may never have been durable, with no batch less; otherwise the error says where.
func FuzzJournalDamage(f *testing.F) {
	w := writeJournal(f)
	dir := filepath.Join(memoryDir(f), "j")
	for i, frames := range w.frames {
		for _, frame := range frames {
			for kind := range byte(4) {
				for _, at := range []int{frame.end - 1, frame.end, frame.end + 2} {
					f.Add(byte(i), []byte{0, 1, byte(at >> 8), byte(at), kind, 9})
				}
			}
		}
	}
	f.Add(byte(2), []byte{})
	f.Fuzz(func(t *testing.T, place byte, choices []byte) {
		i := int(place) % len(w.names)
		files := maps.Clone(w.files)
		data := (&draw{choices}).damage(files[w.names[i]])
		files[w.names[i]] = data
		want, wantCut, wantWrong := w.expect(i, data)
		h, cut, wrong := openJournal(t, dir, files)
		require.Equal(t, wantWrong, wrong)
		require.Equal(t, want, h)
		require.Equal(t, wantCut, cut)
	})
}

// A segment that is missing between two others is found.
func TestJournalHole(t *testing.T) {
	w := writeJournal(t)
	files := maps.Clone(w.files)
	delete(files, w.names[1])
	_, _, wrong := openJournal(t, filepath.Join(memoryDir(t), "j"), files)
	require.Equal(t, &damage{w.names[2], len(segmentStart)}, wrong)
}
