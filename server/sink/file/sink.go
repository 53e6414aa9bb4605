package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/sink"
)

// Framing is how records are told apart in the file.
type Framing uint8

// With LF each record is followed by one LF and can't hold one; with Length its length goes before it
// as a uvarint.
const (
	LF Framing = iota
	Length
)

// ParseFraming reads the word for a framing: lf or length.
func ParseFraming(word string) (Framing, error) {
	switch word {
	case "lf":
		return LF, nil
	case "length":
		return Length, nil
	}
	return 0, fmt.Errorf("framing is %q, allowed is lf or length", word)
}

// Options of a [Sink]. Path must be set.
type Options struct {
	Path    string
	Framing Framing
	// Recover is the operator's decision to go on with a file that is not what the last checkpoint
	// says: what is there is accepted, what may be lost or doubled is logged.
	Recover bool
	// Log tells of what Recover found and did; nil for nothing.
	Log *slog.Logger

	fs disk.FS // other than the machine's: for tests
}

// Sink appends to a file that it holds a lock on. Its methods are for one goroutine; a Txn may commit
// beside them.
type Sink struct {
	options Options
	path    string // absolute
	fs      disk.FS
	log     *slog.Logger
	f       disk.File
	inode   uint64
	found   bool // the file was there before
	size    int64
	tail    []byte // the last bytes of the file, up to tailSize
	buf     []byte // what one Write writes; ends are those of its batches
	ends    []int
	broken  atomic.Pointer[error] // why the file must not be used any more
}

var _ sink.Sink = (*Sink)(nil)

// Open opens the file, makes it when there is none, and locks it. It fails when the path is anything
// but a regular file, or another process has it. Nothing in it is changed before Recover.
func Open(o Options) (*Sink, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("output file %s: %w", o.Path, err)
	}
	s := &Sink{options: o, path: path, fs: o.fs, log: o.Log}
	if s.fs == nil {
		s.fs = disk.OS
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("output file: %w", err)
	}
	return s, nil
}

// ErrInUse is wrapped by the error of Open when another process has the file.
var ErrInUse = disk.ErrLocked

func (s *Sink) open() (err error) {
	_, err = s.fs.Stat(s.path)
	s.found = !errors.Is(err, fs.ErrNotExist)
	if s.f, err = s.fs.Open(s.path, true, 0o644); err != nil {
		return err
	}
	err = s.f.Lock()
	var info disk.Info
	if err == nil {
		info, err = s.f.Stat()
	}
	if err != nil {
		return errors.Join(err, s.f.Close())
	}
	s.inode, s.size = info.Inode, info.Size
	return nil
}

// Traits says that what is not committed is undone, and with [LF] that records are lines.
func (s *Sink) Traits() sink.Traits {
	return sink.Traits{ExactlyOnce: true, Lines: s.options.Framing == LF}
}

// Begin opens a transaction; it does no I/O.
func (s *Sink) Begin(context.Context) (sink.Txn, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	return &txn{s}, nil
}

// Close releases the file. What is not committed stays in it until the next Recover.
func (s *Sink) Close() error {
	if errors.Is(s.usable(), errClosed) {
		return nil
	}
	s.broken.Store(&errClosed)
	return s.f.Close()
}

var errClosed = errors.New("output file: closed")

func (s *Sink) usable() error {
	if err := s.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// fail ends the use of the file: what it holds is known to the next Recover only.
func (s *Sink) fail(err error) error {
	err = fmt.Errorf("output file: %w", err)
	s.broken.CompareAndSwap(nil, &err)
	return err
}
