package collector

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"

	"github.com/tidemark/tidemark/protocol"
)

// A segment is a header and frames, all fixed numbers little-endian:
//
//	header  "tidebuf" and the format (1 byte)
//	frame   length of the body (4), CRC-32C of the body (4), body
//	body    kind (1), offset (uvarint), watermark (uvarint), number (uvarint), length of the source (uvarint), source, rest
//
// The offset is that of the frame. The number is the id of the first batch, or 0. A frame is written when all below it is
// durable, so one that is whole proves that all below it once was. A mark of the watermark alone is not synced: the next
// frame, which says the watermark too, takes its place.
const (
	journalMagic = "tidebuf\x02"
	frameHead    = 8
)

const (
	kindHead         = 'H' // first frame of each segment: the id of its first batch, the source; rest: unconfirmed (uvarint), numbers
	kindBatches      = 'B' // batches were stored; source says where the next ones come from; rest: entries
	kindUnconfirmed  = 'U' // the same, before the ingress was reached in that life of the process
	kindAcknowledged = 'A' // the watermark, and nothing else
	kindSource       = 'S' // the source without batches; an empty one has ended
	kindNumbers      = 'N' // rest: how ids become numbers from now on; the ingress was reached, or will say
)

const instanceBytes = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errTorn     = errors.New("torn frame")
	errNonsense = errors.New("the frame's body makes no sense")
)

// frame is one frame's body; its parts alias the file's bytes.
type frame struct {
	kind      byte
	at        int64
	watermark uint64
	number    uint64
	source    []byte
	rest      []byte
}

func appendFrame(dst []byte, f frame) []byte {
	dst, at := beginFrame(dst, f)
	return endFrame(append(dst, f.rest...), at)
}

// beginFrame appends a frame up to its rest, which the caller appends, and tells where it begins.
func beginFrame(dst []byte, f frame) (b []byte, at int) {
	at = len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	dst = append(dst, f.kind)
	dst = binary.AppendUvarint(dst, uint64(f.at))
	dst = binary.AppendUvarint(dst, f.watermark)
	dst = binary.AppendUvarint(dst, f.number)
	return protocol.AppendRecord(dst, f.source), at
}

func endFrame(dst []byte, at int) []byte {
	body := dst[at+frameHead:]
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(body)))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(body, castagnoli))
	return dst
}

// wholeFrame yields the body of the first frame of b. It fails with errTorn when the frame is not whole.
func wholeFrame(b []byte) (body []byte, err error) {
	if len(b) < frameHead {
		return nil, errTorn
	}
	length := binary.LittleEndian.Uint32(b)
	if uint64(length) > uint64(len(b)-frameHead) {
		return nil, errTorn
	}
	body = b[frameHead : frameHead+int(length)]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[4:]) || len(body) == 0 {
		return nil, errTorn
	}
	return body, nil
}

// parseFrame reads the first frame of b and tells its size. It fails with errTorn when it is not whole.
func parseFrame(b []byte) (f frame, size int, err error) {
	body, err := wholeFrame(b)
	if err != nil {
		return frame{}, 0, err
	}
	w := words{rest: body[1:]}
	f = frame{kind: body[0], at: int64(w.uvarint()), watermark: w.uvarint(), number: w.uvarint(), source: w.bytes()}
	if f.rest = w.rest; w.bad || f.number > protocol.MaxID || f.watermark > protocol.MaxID {
		return frame{}, 0, errNonsense
	}
	return f, frameHead + len(body), nil
}

// proof looks for a whole frame behind the first byte of b, which begins at the offset at and is not whole. It returns
// its offset, or -1: then what stands there is the rest of a write that was never synced.
func proof(b []byte, at int64) int64 {
	for i := 1; i+frameHead < len(b); i++ {
		switch b[i+frameHead] {
		case kindHead, kindBatches, kindUnconfirmed, kindAcknowledged, kindSource, kindNumbers:
			if f, _, err := parseFrame(b[i:]); err == nil && f.at == at+int64(i) {
				return at + int64(i)
			}
		}
	}
	return -1
}

// words takes a frame's parts off its front.
type words struct {
	rest []byte
	bad  bool
}

func (w *words) uvarint() uint64 {
	v, n := binary.Uvarint(w.rest)
	return v * uint64(w.step(n))
}

func (w *words) varint() int64 {
	v, n := binary.Varint(w.rest)
	return v * int64(w.step(n))
}

// step goes n bytes on, if there are as many and n is above 0; it returns 1 if so, else 0.
func (w *words) step(n int) int {
	if w.bad || n <= 0 || n > len(w.rest) {
		w.bad = true
		return 0
	}
	w.rest = w.rest[n:]
	return 1
}

// bytes takes bytes that their length stands before.
func (w *words) bytes() []byte {
	n := w.uvarint()
	if n > uint64(len(w.rest)) {
		w.bad = true
	}
	if w.bad {
		return nil
	}
	b := w.rest[:n:n]
	w.rest = w.rest[n:]
	return b
}

// appendEntry appends a batch as it stands in a frame of batches.
func appendEntry(dst []byte, b Batch) []byte {
	return protocol.AppendRecord(binary.AppendUvarint(dst, uint64(b.Records)), b.Payload)
}

// entry takes the next batch of a frame of batches.
func (w *words) entry() (Batch, bool) {
	b := Batch{Records: int(w.uvarint()), Payload: w.bytes()}
	return b, !w.bad && b.Records > 0
}

// Numbers say under which numbers a buffer sends: the batch with an id goes as id + Offset, under an instance.
type Numbers struct {
	Instance string // 32 hex digits, drawn when the numbers began
	Known    bool   // false: the ingress has to say where they begin; Offset is 0 until then
	Offset   int64
}

func (n Numbers) append(dst []byte) []byte {
	raw, err := hex.DecodeString(n.Instance)
	if err != nil || len(raw) != instanceBytes {
		panic("collector: an instance is not 32 hex digits: " + n.Instance)
	}
	known := byte(0)
	if n.Known {
		known = 1
	}
	return binary.AppendVarint(append(append(dst, raw...), known), n.Offset)
}

func (w *words) numbers() (n Numbers) {
	if len(w.rest) <= instanceBytes {
		w.bad = true
		return n
	}
	n.Instance = hex.EncodeToString(w.rest[:instanceBytes])
	n.Known = w.rest[instanceBytes] == 1
	w.rest = w.rest[instanceBytes+1:]
	n.Offset = w.varint()
	return n
}
