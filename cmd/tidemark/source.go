package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/tidemark/tidemark/collector"
	"github.com/tidemark/tidemark/config"
)

const stdin = "-"

// lineFile is a file whose lines are records.
type lineFile struct {
	path   string
	r      io.Reader
	f      *os.File // nil: standard input
	inode  uint64
	offset int64  // behind the last line that was taken
	buf    []byte // read; the first used bytes of it were taken
	used   int
	line   int  // number of the next line, from 1
	ended  bool // for now: there is nothing more to read
	gone   bool // another file has its path by now
}

// findLines looks whether a file can be read. A regular one is not left open: there may be many.
func findLines(path string, in io.Reader) (*lineFile, error) {
	l := &lineFile{path: path, line: 1}
	if path == stdin {
		l.r = in
		return l, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return l, nil // opening a pipe and leaving it again would end its writer
	}
	return l, errors.Join(l.open(), l.close())
}

// open opens a file that is not open yet, at its beginning.
func (l *lineFile) open() error {
	if l.f != nil || l.path == stdin {
		return nil
	}
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s: is a directory", l.path)
	}
	if err == nil && l.inode != 0 && l.inode != inodeOf(info) {
		err = fmt.Errorf("%s: was replaced by another file", l.path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.r, l.inode = f, f, inodeOf(info)
	_, err = f.Seek(l.offset, io.SeekStart)
	return err
}

func (l *lineFile) close() error {
	if l.f == nil {
		return nil
	}
	f := l.f
	l.f, l.buf, l.used = nil, nil, 0
	return f.Close()
}

// inodeOf is the identity of a file that can be read again; 0 of others.
func inodeOf(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
		return s.Ino
	}
	return 0
}

const readSize = 256 << 10

// fill reads more, until there is a whole line or the end.
func (l *lineFile) fill() error {
	l.buf = l.buf[:copy(l.buf, l.buf[l.used:])]
	l.used = 0
	from := 0
	for bytes.IndexByte(l.buf[from:], '\n') < 0 {
		from = len(l.buf)
		if from > collector.MaxRecord {
			return fmt.Errorf("%s:%d: the line is longer than %d bytes", l.path, l.line, collector.MaxRecord)
		}
		l.buf = slices.Grow(l.buf, readSize)[:from+readSize]
		n, err := l.r.Read(l.buf[from:])
		l.buf = l.buf[:from+n]
		l.ended = err == io.EOF
		if err != nil && !l.ended {
			return fmt.Errorf("%s: %w", l.path, err)
		}
		if l.ended {
			return nil
		}
	}
	return nil
}

// next yields the next whole line of what was read, without its end, valid until the next fill. The last line of a file
// from which no more will come needs no end.
func (l *lineFile) next(more bool) (line []byte, ok bool, err error) {
	rest := l.buf[l.used:]
	end := bytes.IndexByte(rest, '\n')
	next := end + 1
	if end < 0 && l.ended && !more && len(rest) > 0 {
		end, next = len(rest), len(rest)
	}
	switch {
	case end < 0:
		return nil, false, nil
	case end > collector.MaxRecord:
		return nil, false, fmt.Errorf("%s:%d: the line has %d bytes, allowed are %d", l.path, l.line, end, collector.MaxRecord)
	}
	l.used += next
	l.offset += int64(next)
	l.line++
	return rest[:end], true, nil
}

// skip begins at an offset where an earlier process ended.
func (l *lineFile) skip(offset int64) error {
	if err := l.open(); err != nil {
		return err
	}
	head := make([]byte, readSize)
	for l.offset < offset {
		n, err := l.f.Read(head[:min(offset-l.offset, readSize)])
		if err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
		l.line += bytes.Count(head[:n], []byte{'\n'})
		l.offset += int64(n)
	}
	return nil
}

// over tells that nothing more will come from the open file: another one took its place, or it was cut. Its end has still
// to be read. A file whose place was taken gets one more look, as its writer may not have changed over yet.
func (l *lineFile) over() bool {
	info, err := os.Stat(l.path)
	if err != nil || l.inode == 0 || l.f == nil {
		return false // a file may come again
	}
	before := l.gone
	l.gone = inodeOf(info) != l.inode
	cut := !l.gone && info.Size() < l.offset+int64(len(l.buf)-l.used)
	return cut || l.gone && before
}

// renew goes over to the file that is at the path now, if there is one, at its beginning.
func (l *lineFile) renew(log *slog.Logger) error {
	next := &lineFile{path: l.path, line: 1}
	err := next.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	log.Warn("the file was replaced or cut: the one there now is read from its beginning", "file", l.path, "read of the old one", l.offset)
	err = l.close()
	*l = *next
	return err
}

// source is all files of one run, in order.
type source struct {
	files []*lineFile
	at    int    // files before it are sent
	run   string // names the list of files
}

// position is what the journal keeps of a source: files before At are sent, and how far some of the others are.
type position struct {
	Run   string         `json:"run"`
	At    int            `json:"at"`
	Files []filePosition `json:"files"`
}

type filePosition struct {
	File   int    `json:"file"`
	Inode  uint64 `json:"inode"`
	Offset int64  `json:"offset"`
}

func openSource(paths []string, in io.Reader) (*source, error) {
	s := &source{}
	names := fnv.New128a()
	durable := true
	for _, path := range paths {
		l, err := findLines(path, in)
		if err != nil {
			return nil, &config.UsageError{Problem: "FILE " + strconv.Quote(path) + ": must be a file that can be read: " + err.Error()}
		}
		s.files = append(s.files, l)
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(names, "%q", absolute)
		durable = durable && l.inode != 0
	}
	if durable { // what can't be read again has no position
		s.run = fmt.Sprintf("%x", names.Sum(nil))
	}
	return s, nil
}

// position tells where the source goes on behind what was taken.
func (s *source) position() []byte {
	if s.run == "" {
		return nil
	}
	p := position{Run: s.run, At: s.at}
	for i := s.at; i < len(s.files); i++ {
		if offset := s.files[i].offset; offset > 0 {
			p.Files = append(p.Files, filePosition{i, s.files[i].inode, offset})
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic("tidemark: a position can't be written: " + err.Error())
	}
	return text
}

// resume goes on where an earlier process with the same files ended. It tells whether it did, and which files are not
// those that were begun: the rest of the old ones can't be reached.
func (s *source) resume(text []byte) (resumed bool, lost []filePosition, err error) {
	var p position
	if len(text) == 0 || json.Unmarshal(text, &p) != nil || p.Run != s.run || s.run == "" {
		return false, nil, nil
	}
	s.at = min(p.At, len(s.files)-1)
	for _, at := range p.Files {
		if at.File < 0 || at.File >= len(s.files) {
			continue
		}
		l := s.files[at.File]
		info, err := os.Stat(l.path)
		if err != nil {
			return false, nil, err
		}
		if l.inode != at.Inode || info.Size() < at.Offset {
			lost = append(lost, at)
			continue
		}
		if err := l.skip(at.Offset); err != nil {
			return false, nil, err
		}
	}
	return true, lost, nil
}
