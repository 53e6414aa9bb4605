package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/tidemark/tidemark/server/internal/disk"
)

const tailSize = 4096 // bytes before the offset that a position has the checksum of

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// position is where a checkpoint ends in the file, as JSON: people read it with `tidemark inspect`.
type position struct {
	Path   string `json:"path"`
	Inode  uint64 `json:"inode"`
	Offset int64  `json:"offset"`
	CRC    uint32 `json:"crc"` // CRC-32C of the tailSize bytes before the offset
}

func (s *Sink) position() position {
	return position{s.path, s.inode, s.size, crc32.Checksum(s.tail, castagnoli)}
}

func (p position) encode() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic("file: " + err.Error()) // strings and numbers always have a JSON form
	}
	return b
}

func decodePosition(b []byte) (p position, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || p.Offset < 0 {
		return p, fmt.Errorf("the checkpoint's position is none of an output file: %q", b)
	}
	return p, nil
}

// tailOf reads the bytes before an offset that a position has the checksum of.
func tailOf(f disk.File, offset int64) ([]byte, error) {
	tail := make([]byte, min(offset, tailSize))
	_, err := io.ReadFull(io.NewSectionReader(f, offset-int64(len(tail)), int64(len(tail))), tail)
	return tail, err
}
