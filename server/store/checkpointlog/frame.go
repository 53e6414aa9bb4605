package checkpointlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/tidemark/tidemark/server/store"
)

// The file, all fixed numbers little-endian:
//
//	header  "tidemark", format (4), id of the file (8), sequence of the first frame (8), CRC (4)
//	frame   head: "fram", sequence (8), length of the body (8), CRC of the body (4), CRC of the head (4)
//	        body: number of the checkpoint (0: none), position (0: none, else its length + 1, its bytes),
//	        anchors, changes: each list a count, then for each its collector and its delta, both with
//	        their length before them; seats, unless there are none: a count, then for each its collector
//	        and its instance, and the retired ones after their count; numbers are uvarints
//	mark    head with "seal", the sequence of the frame before it and no body
//
// Every CRC is a CRC-32C that starts from the id: what an older file left behind, or a collector put
// into a payload, is never taken for a frame or a mark. The layout of the header is that of all formats.
//
// Format 2 is what is written. Format 1 knew no seats and is the same otherwise: it is read, and Load
// puts a log of format 2 in its place before anything else is written, since a program that knows
// format 1 only has to refuse a log with seats.
const (
	format     = 2
	oldest     = 1
	magic      = "tidemark"
	headerSize = len(magic) + 4 + 8 + 8 + 4
	headSize   = 4 + 8 + 8 + 4 + 4
)

const (
	kindFrame = "fram"
	kindSeal  = "seal"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the start of a file: its format, who it is, and the sequence its frames begin with.
type header struct {
	format    uint32
	id, first uint64
}

func (h header) seed() uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint64(nil, h.id), castagnoli)
}

func (h header) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, h.format)
	dst = binary.LittleEndian.AppendUint64(dst, h.id)
	dst = binary.LittleEndian.AppendUint64(dst, h.first)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// ErrFormat is wrapped by the error about a log in a format this program does not know.
var ErrFormat = errors.New("unknown format")

var errHeader = errors.New("the header is damaged")

// parseHeader returns what the bytes say even when they are damaged: errHeader.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{first: 1}, fmt.Errorf("the header is cut off, %d of %d bytes", len(b), headerSize)
	}
	h := header{binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint64(b[12:]), binary.LittleEndian.Uint64(b[20:])}
	sum := binary.LittleEndian.Uint32(b[headerSize-4:])
	switch {
	case string(b[:8]) != magic || crc32.Checksum(b[:headerSize-4], castagnoli) != sum:
		return h, errHeader
	case h.format < oldest || h.format > format:
		return h, fmt.Errorf("%w %d, this program reads formats %d to %d", ErrFormat, h.format, oldest, format)
	}
	return h, nil
}

// head is what stands before the body of a frame, or is a mark.
type head struct {
	kind          string
	seq, length   uint64
	body, started uint32 // CRC of the body; where CRCs start
}

func (h head) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, h.kind...)
	dst = binary.LittleEndian.AppendUint64(dst, h.seq)
	dst = binary.LittleEndian.AppendUint64(dst, h.length)
	dst = binary.LittleEndian.AppendUint32(dst, h.body)
	return binary.LittleEndian.AppendUint32(dst, crc32.Update(h.started, castagnoli, dst[at:]))
}

// parseHead tells whether the first headSize bytes are a head.
func parseHead(b []byte, seed uint32) (head, bool) {
	if len(b) < headSize || b[0] != kindFrame[0] && b[0] != kindSeal[0] ||
		crc32.Update(seed, castagnoli, b[:headSize-4]) != binary.LittleEndian.Uint32(b[headSize-4:]) {
		return head{}, false
	}
	h := head{
		string(b[:4]), binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint64(b[12:]),
		binary.LittleEndian.Uint32(b[20:]), seed,
	}
	return h, h.kind == kindFrame || h.kind == kindSeal && h.length == 0
}

func appendMark(dst []byte, seq uint64, seed uint32) []byte {
	return head{kind: kindSeal, seq: seq, body: seed, started: seed}.append(dst)
}

// entry is the body of a frame: anchors, a checkpoint when number is not 0, and seats, of which a
// later one replaces an earlier one.
type entry struct {
	number           uint64
	position         []byte
	anchors, changes []store.Change
	seats            []seat
}

// anchor adds what Anchor was asked to store.
func (e *entry) anchor(c store.Change) {
	if len(c.Delta) > 0 {
		e.anchors = append(e.anchors, c)
	}
	if c.Seat != nil {
		e.seats = append(e.seats, seat{c.Collector, *c.Seat})
	}
}

func (e *entry) appendFrame(dst []byte, seq uint64, seed uint32) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, headSize)...)
	dst = binary.AppendUvarint(dst, e.number)
	if e.position == nil {
		dst = append(dst, 0)
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(e.position))+1)
		dst = append(dst, e.position...)
	}
	dst = appendChanges(dst, e.anchors)
	dst = appendChanges(dst, e.changes)
	dst = appendSeats(dst, e.seats)
	body := dst[at+headSize:]
	head{kindFrame, seq, uint64(len(body)), crc32.Update(seed, castagnoli, body), seed}.append(dst[:at])
	return dst
}

func appendChanges(dst []byte, list []store.Change) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, c := range list {
		dst = appendText(dst, c.Collector)
		dst = binary.AppendUvarint(dst, uint64(len(c.Delta)))
		dst = append(dst, c.Delta...)
	}
	return dst
}

// parseEntry takes a body apart; position and deltas alias it. Memory is bounded by its length.
func parseEntry(b []byte) (*entry, error) {
	p := bodyParser{rest: b}
	e := &entry{number: p.uvarint()}
	if n := p.uvarint(); n > 0 {
		e.position = p.bytes(n - 1)
	}
	e.anchors, e.changes, e.seats = p.changes(), p.changes(), p.seats()
	if p.bad || len(p.rest) > 0 {
		return nil, errors.New("the frame's body makes no sense")
	}
	return e, nil
}

type bodyParser struct {
	rest []byte
	bad  bool
}

func (p *bodyParser) uvarint() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.bad, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *bodyParser) bytes(n uint64) []byte {
	if n > uint64(len(p.rest)) {
		p.bad, p.rest = true, nil
		return nil
	}
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}

func (p *bodyParser) changes() []store.Change {
	n := p.uvarint()
	if n > uint64(len(p.rest)/2) {
		p.bad = true
		return nil
	}
	list := make([]store.Change, 0, n)
	for ; n > 0 && !p.bad; n-- {
		list = append(list, store.Change{Collector: p.text(), Delta: p.bytes(p.uvarint())})
	}
	return list
}
