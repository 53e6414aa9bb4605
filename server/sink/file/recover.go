package file

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strconv"

	"github.com/tidemark/tidemark/server/internal/disk"
)

const (
	cutSuffix = ".cut-"
	cutsKept  = 8
)

// Recover cuts the file back to the position of the last checkpoint and makes that durable. What it
// cuts is kept in PATH.cut-N, the last 8 of them. A file that can't be the one the position speaks of
// is an error, unless Options.Recover says to go on with it.
func (s *Sink) Recover(_ context.Context, position []byte) error {
	if err := s.usable(); err != nil {
		return err
	}
	err := s.recover(position)
	if err == nil {
		return nil
	}
	if !s.found { // a file that is gone stays gone, so that the next try says the same
		err = errors.Join(err, s.fs.Remove(s.path))
	}
	return s.fail(err)
}

func (s *Sink) recover(position []byte) error {
	at, err := s.agree(position)
	if err != nil {
		return err
	}
	if at < s.size {
		if err := s.cut(at); err != nil {
			return err
		}
	}
	if err := s.f.Sync(); err != nil {
		return err
	}
	if err := s.fs.SyncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	s.size = at
	s.tail, err = tailOf(s.f, at)
	return err
}

// ErrNotAsLeft is wrapped by the error of Recover about a file that can't be the one the last checkpoint
// speaks of. Options.Recover goes on with it all the same.
var ErrNotAsLeft = errors.New("what was acknowledged may not be here")

// agree finds the offset to go on from.
func (s *Sink) agree(position []byte) (int64, error) {
	p, wrong, err := s.compare(position)
	if err != nil || wrong == "" {
		return p.Offset, err
	}
	if !s.options.Recover {
		return 0, fmt.Errorf("%s: %s; %w", s.path, wrong, ErrNotAsLeft)
	}
	if p.Path != "" && s.size >= p.Offset {
		if same, err := s.holds(p); err != nil || same {
			s.log.Warn("output file accepted: its bytes are those of the last checkpoint", "file", s.path, "found", wrong)
			return p.Offset, err
		}
	}
	at, err := s.lastWhole()
	s.log.Warn("output file accepted as it is: acknowledged records may be lost, or be there twice",
		"file", s.path, "found", wrong, "bytes_kept", at, "bytes_at_checkpoint", p.Offset,
		"bytes_short", max(0, p.Offset-at))
	return at, err
}

// compare says what in the file is not as the position has it.
func (s *Sink) compare(encoded []byte) (p position, wrong string, err error) {
	if encoded == nil {
		if s.size > 0 {
			wrong = fmt.Sprintf("it has %d bytes and no checkpoint knows of them", s.size)
		}
		return p, wrong, nil
	}
	p, err = decodePosition(encoded)
	switch {
	case err != nil:
		return position{}, err.Error(), nil
	case p.Offset == 0 && s.size == 0:
		return p, "", nil // nothing was here: nothing is missing
	case !s.found:
		return p, fmt.Sprintf("it is gone, the last checkpoint has %d bytes in it", p.Offset), nil
	case s.size < p.Offset:
		return p, fmt.Sprintf("it has %d bytes, %d at the last checkpoint", s.size, p.Offset), nil
	case s.inode != p.Inode:
		return p, fmt.Sprintf("it is another file: inode %d, at the last checkpoint it was %s with inode %d", s.inode, p.Path, p.Inode), nil
	}
	same, err := s.holds(p)
	if err == nil && !same {
		wrong = fmt.Sprintf("its bytes before offset %d are not those of the last checkpoint", p.Offset)
	}
	return p, wrong, err
}

// holds tells whether the bytes before the position are the ones it was made with.
func (s *Sink) holds(p position) (bool, error) {
	tail, err := tailOf(s.f, p.Offset)
	return crc32.Checksum(tail, castagnoli) == p.CRC, err
}

// cut moves the bytes from at on to the next PATH.cut-N and drops the oldest of those.
func (s *Sink) cut(at int64) error {
	prefix := s.path + cutSuffix
	aside, err := disk.SetAside(s.fs, s.f, at, s.size, prefix)
	if err != nil {
		return err
	}
	s.log.Info("bytes that no checkpoint covers were moved out of the output file", "file", s.path,
		"offset", at, "bytes", s.size-at, "to", aside)
	if err := s.f.Truncate(at); err != nil {
		return err
	}
	numbers, err := disk.Numbered(s.fs, prefix)
	for len(numbers) > cutsKept && err == nil {
		err = s.fs.Remove(prefix + strconv.FormatUint(numbers[0], 10))
		numbers = numbers[1:]
	}
	return err
}

// lastWhole is the end of the last whole record.
func (s *Sink) lastWhole() (int64, error) {
	if s.options.Framing == LF {
		return s.lastLine()
	}
	r := bufio.NewReader(io.NewSectionReader(s.f, 0, s.size))
	for at := int64(0); ; {
		head, err := r.Peek(binary.MaxVarintLen64)
		if err != nil && err != io.EOF {
			return 0, err
		}
		length, n := binary.Uvarint(head)
		if n <= 0 || length > uint64(s.size-at)-uint64(n) {
			return at, nil
		}
		if _, err := io.CopyN(io.Discard, r, int64(n)+int64(length)); err != nil {
			return 0, err
		}
		at += int64(n) + int64(length)
	}
}

func (s *Sink) lastLine() (int64, error) {
	buf := make([]byte, 64<<10)
	for end := s.size; end > 0; {
		b := buf[:min(int64(len(buf)), end)]
		if _, err := s.f.ReadAt(b, end-int64(len(b))); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return end - int64(len(b)) + int64(i) + 1, nil
		}
		end -= int64(len(b))
	}
	return 0, nil
}
