package fuzz

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/collector"
	"github.com/tidemark/tidemark/protocol"
)

// A journal of format 1 is one file of this name and beginning, as journal_format1.go of package collector has them.
const (
	format1Name  = "journal"
	format1Start = "tidebuf\x01"
)

// framed puts a length and a check before each body; FE FE is between two. In a segment, a 0 behind the kind becomes the
// offset of the frame.
func framed(start string, bodies []byte) []byte {
	data := []byte(start)
	for body := range bytes.SplitSeq(bodies, []byte{0xfe, 0xfe}) {
		if start == segmentStart && len(body) > 1 && body[1] == 0 {
			body = append(binary.AppendUvarint(body[:1:1], uint64(len(data))), body[2:]...)
		}
		data = binary.LittleEndian.AppendUint32(data, uint32(len(body)))
		data = binary.LittleEndian.AppendUint32(data, checkOf(body))
		data = append(data, body...)
	}
	return data
}

func checkOf(body []byte) uint32 { return crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) }

// wholeFrame is the body of the frame that data begins with, if that is whole.
func wholeFrame(data []byte) (body []byte, ok bool) {
	if len(data) <= frameHead {
		return nil, false
	}
	n := binary.LittleEndian.Uint32(data)
	if n == 0 || uint64(n) > uint64(len(data)-frameHead) {
		return nil, false
	}
	body = data[frameHead : frameHead+n]
	return body, checkOf(body) == binary.LittleEndian.Uint32(data[4:])
}

// number takes a number off the front of a body.
func number(b []byte) (n uint64, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	return n, b[max(size, 0):], size > 0
}

// piece takes bytes, with their length before them, off the front of a body.
func piece(b []byte) (p, rest []byte, ok bool) {
	n, rest, ok := number(b)
	if !ok || n > uint64(len(rest)) {
		return nil, nil, false
	}
	return rest[:n], rest[n:], true
}

// batchesIn are the batches in frames, by their ids.
func batchesIn(bodies []byte) map[uint64]string {
	found := map[uint64]string{}
	for body := range bytes.SplitSeq(bodies, []byte{0xfe, 0xfe}) {
		if len(body) == 0 || body[0] != 'B' && body[0] != 'U' {
			continue
		}
		_, rest, _ := number(body[1:]) // the offset
		_, rest, _ = number(rest)      // the watermark
		id, rest, _ := number(rest)
		_, rest, ok := piece(rest)
		for ; ok && len(rest) > 0; id++ {
			var records uint64
			var payload []byte
			records, rest, _ = number(rest)
			payload, rest, ok = piece(rest)
			found[id] = batchText(collector.Batch{Records: int(records), Payload: payload})
		}
	}
	return found
}

// body is that of a frame of a segment, behind FE FE.
func body(kind byte, watermark, number uint64, rest string) string {
	b := binary.AppendUvarint([]byte{0xfe, 0xfe, kind, 0}, watermark)
	b = append(binary.AppendUvarint(b, number), "\x01s"...)
	return string(append(b, rest...))
}

// headBody is the body of a segment's first frame.
func headBody(first uint64) string {
	return body('H', first-1, first, "\x00instance that is\x01\x09")[2:]
}

// FuzzJournalFrames: frames that are right by their checks may hold any bodies, one behind each FE FE of the bytes, in one
// segment or in two. What is held then stands in them.
func FuzzJournalFrames(f *testing.F) {
	dir := filepath.Join(memoryDir(f), "j")
	const top = uint64(protocol.MaxID)
	one, three := "\x01\x01\x00", body('B', 0, 1, "\x01\x04\x03one\x02\x04\x00\x02ab\x01\x01\x00")
	for _, bodies := range []string{
		"", body('A', 0, 0, ""), body('A', 1, 0, ""), body('S', 0, 0, ""), body('?', 0, 0, ""), headBody(1), body('H', 0, 1, ""),
		body('N', 0, 0, "instance is this\x01\x08"), body('N', 0, 0, "instance is this\x00"), body('N', 0, 0, "instance is"),
		three, three + body('A', 2, 0, ""), three + body('A', 3, 0, "") + body('A', 1, 0, ""), three + body('U', 3, 4, one), three + three,
		body('U', 0, 1, ""), body('U', 0, 1, "\x00\x00"), body('U', 0, 1, "\x01\x00"), body('U', 0, 1, "\x02\x01\x00"),
		body('B', 0, 1, "\x01\x7f\x00"), body('B', 0, 2, one), body('B', 0, 1, "\x01\x02\x80\x00"), "\xfe\xfeB\x00\x00\x01\x7f",
		body('A', top, 0, ""), body('A', 0, 1<<63, ""), "\xfe\xfeS\x01\x00\x00\x00", "\xfe\xfe", "\xfe\xfe" + body('A', 0, 0, ""),
		body('U', 0, 1, strings.Repeat(one, 20000)), body('U', 0, 1, "\xa0\x9c\x01\xa0\x9c\x01"+strings.Repeat("\x00", 20000)),
		strings.Repeat(body('A', 0, 0, ""), 3000),
	} {
		f.Add(uint64(1), []byte(headBody(1)+bodies), uint64(0), []byte{})
	}
	f.Add(uint64(1), []byte("S\x00\x00\x00\x00"), uint64(0), []byte{})
	f.Add(uint64(7), []byte(headBody(8)), uint64(0), []byte{})
	f.Add(uint64(1), []byte(headBody(1)+three), uint64(4), []byte(headBody(4)+body('U', 3, 4, one)))
	f.Add(uint64(1), []byte(headBody(1)+three), uint64(4), []byte(headBody(4)))
	f.Add(uint64(1), []byte(headBody(1)+three), uint64(5), []byte(headBody(5)))
	for left := range uint64(5) { // at the end of the ids
		f.Add(top-left, []byte(headBody(top-left)), uint64(0), []byte{})
		f.Add(top-left, []byte(headBody(top-left)+body('U', 0, top-left, one+one)), uint64(0), []byte{})
	}
	f.Fuzz(func(t *testing.T, first uint64, bodies []byte, second uint64, more []byte) {
		files := folder{segmentName(first & top): framed(segmentStart, bodies)}
		written := batchesIn(bodies)
		if len(more) > 0 {
			files[segmentName(second&top)] = framed(segmentStart, more)
			maps.Copy(written, batchesIn(more))
		}
		h, _, _ := openJournal(t, dir, files)
		for i, b := range h.batches {
			require.Equal(t, written[h.first+uint64(i)], b)
		}
	})
}

// held1 tells what a journal of format 1 holds, as the program that wrote it would, and where its last whole write
// ends; or where it is wrong.
func held1(data []byte) (h held, end int, wrong *damage) {
	if !bytes.HasPrefix(data, []byte(format1Start)) {
		return held{}, 0, &damage{format1Name, -1}
	}
	h = held{first: 1, batches: []string{}, numbers: collector.Numbers{Instance: strings.Repeat("72", 16), Known: true}}
	end = len(format1Start)
	for end < len(data) {
		body, ok := wholeFrame(data[end:])
		if !ok && !frame1Behind(data[end:]) {
			break
		}
		if !ok || !h.take1(body, end == len(format1Start)) {
			return held{}, 0, &damage{format1Name, end}
		}
		end += frameHead + len(body)
	}
	h.unconfirmed = h.next()
	return h, end, nil
}

// frame1Behind tells whether a whole frame of format 1 stands behind the first byte.
func frame1Behind(data []byte) bool {
	for i := range data {
		if body, ok := wholeFrame(data[i:]); i > 0 && ok && bytes.IndexByte([]byte("RAS"), body[0]) >= 0 {
			if _, rest, ok := number(body[1:]); ok {
				if _, _, ok = piece(rest); ok {
					return true
				}
			}
		}
	}
	return false
}

// take1 does what a frame of format 1 says; false: it makes no sense, or what it says has no id.
func (h *held) take1(body []byte, first bool) bool {
	n, rest, ok := number(body[1:])
	source, rest, ok2 := piece(rest)
	if !ok || !ok2 || n >= protocol.MaxID { // the next one has to fit into a HELLO
		return false
	}
	switch body[0] {
	case 'R':
		h.source = string(source)
		ok = n == h.next()
		for r, err := range protocol.Records(rest) {
			ok = ok && err == nil && h.next() < protocol.MaxID
			h.batches = append(h.batches, batchText(batchOf(string(r))))
		}
		return ok
	case 'A':
		if first {
			h.first = n + 1
		}
		if n+1 < h.first || n+1 > h.next() {
			return false
		}
		h.batches, h.first = slices.Clone(h.batches[n+1-h.first:]), n+1
		return true
	case 'S':
		h.source = string(source)
		return true
	}
	return false
}

// FuzzJournalFormat1: any bytes in the place of a journal of format 1, or frames with right checks and any bodies, become
// a journal with the same records, or are refused and left alone.
func FuzzJournalFormat1(f *testing.F) {
	dir := filepath.Join(memoryDir(f), "j")
	top := string(binary.AppendUvarint(nil, protocol.MaxID))
	good := "A\x06\x00\xfe\xfeR\x07\x04here\x05seven\x00\x03n\re\xfe\xfeA\x07\x00\xfe\xfeR\x0a\x05there\x03ten\xfe\xfeS\x00\x00\xfe\xfeA\x09\x00"
	data := framed(format1Start, []byte(good))
	for at := range len(data) {
		f.Add(true, data[:at])
		if at%3 == 0 {
			changed := bytes.Clone(data)
			changed[at] ^= 4
			f.Add(true, changed)
		}
	}
	for _, bodies := range []string{
		good, "R\x02\x00\x01x", "R\x01\x00\x7fx", "R\x01\x7fx", "R\x01\x00\x81\x00x", "?\x00\x00", "A\x09\x00\xfe\xfeR\x0a\x00\x03two", "",
		"R\x01\x00\x01x\xfe\xfeA\x02\x00", "R\x01\x00\x01x\xfe\xfeA\x01\x00\xfe\xfeA\x00\x00", "S\x00\x7f", "S\x00\x03new", "R\x01\x00",
		"A" + top + "\x00", "A\xfe" + top[1:] + "\x00\xfe\xfeR" + top + "\x00\x00", "A\xfe" + top[1:] + "\x00",
		"A\xfd" + top[1:] + "\x00\xfe\xfeR\xfe" + top[1:] + "\x00\x00", "A\xfd" + top[1:] + "\x00\xfe\xfeR\xfe" + top[1:] + "\x00\x00\x00",
		"R\x01\x00" + strings.Repeat("\x00", 20000), strings.Repeat("S\x00\x00\xfe\xfe", 5000) + "S\x00\x00",
	} {
		f.Add(false, []byte(bodies))
	}
	f.Fuzz(func(t *testing.T, raw bool, data []byte) {
		if !raw {
			data = framed(format1Start, data)
		}
		want, end, wantWrong := held1(data)
		h, cut, wrong := openJournal(t, dir, folder{format1Name: data})
		require.Equal(t, wantWrong, wrong)
		require.Equal(t, want, h)
		if wrong == nil {
			require.Equal(t, len(data)-end, cut)
		}
	})
}
