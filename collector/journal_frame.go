package collector

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/tidemark/tidemark/protocol"
)

// The journal is a header and frames, all fixed numbers little-endian:
//
//	header  "tidebuf" and the format (1 byte)
//	frame   length of the body (4), CRC-32C of the body (4), body
//	body    kind (1), number (uvarint), length of the source (uvarint), source, records
//
// Records are those of package protocol. The number is that of the first record, or the watermark, or 0.
const (
	journalMagic = "tidebuf\x01"
	frameHead    = 8
)

const (
	kindRecords      = 'R' // records were numbered; source says where the next ones come from
	kindAcknowledged = 'A' // everything up to number is acknowledged
	kindSource       = 'S' // the same without records; an empty source has ended
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errTorn = errors.New("torn frame")

// frame is one frame's body; its parts alias the file's bytes.
type frame struct {
	kind    byte
	number  uint64
	source  []byte
	records []byte
}

func appendFrame(dst []byte, f frame, records [][]byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	dst = append(dst, f.kind)
	dst = binary.AppendUvarint(dst, f.number)
	dst = protocol.AppendRecord(dst, f.source)
	for _, record := range records {
		dst = protocol.AppendRecord(dst, record)
	}
	body := dst[at+frameHead:]
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(body)))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(body, castagnoli))
	return dst
}

// parseFrame reads the first frame of b and tells its size. It fails with errTorn when it is not whole.
func parseFrame(b []byte) (f frame, size int, err error) {
	if len(b) < frameHead {
		return frame{}, 0, errTorn
	}
	length := binary.LittleEndian.Uint32(b)
	if uint64(length) > uint64(len(b)-frameHead) {
		return frame{}, 0, errTorn
	}
	body := b[frameHead : frameHead+int(length)]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[4:]) || len(body) == 0 {
		return frame{}, 0, errTorn
	}
	number, n := binary.Uvarint(body[1:])
	rest := body[1+max(n, 0):]
	length64, m := binary.Uvarint(rest)
	if n <= 0 || m <= 0 || number > protocol.MaxID || length64 > uint64(len(rest)-m) {
		return frame{}, 0, errors.New("the frame's body makes no sense")
	}
	rest = rest[m:]
	f = frame{kind: body[0], number: number, source: rest[:length64], records: rest[length64:]}
	return f, frameHead + len(body), nil
}

// findFrame looks for a whole frame that begins behind the first byte of b, which a write that was torn does not have
// behind it. It returns its offset, or -1.
func findFrame(b []byte) int {
	for at := 1; at+frameHead < len(b); at++ {
		switch b[at+frameHead] {
		case kindRecords, kindAcknowledged, kindSource:
			if _, _, err := parseFrame(b[at:]); err == nil {
				return at
			}
		}
	}
	return -1
}
