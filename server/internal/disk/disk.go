package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Info is what Stat tells of a file.
type Info struct {
	Size  int64
	Inode uint64
	Mode  fs.FileMode
}

// File is an open regular file. Its methods may be called by many goroutines at once.
type File interface {
	io.ReaderAt
	// Write appends; it returns how many bytes went through when it fails.
	io.Writer
	// Sync makes the bytes and the size durable. After an error they may be lost however often it is
	// called again.
	Sync() error
	Truncate(size int64) error
	Stat() (Info, error)
	// Lock takes the file for this process until Close; [ErrLocked] when another holds it.
	Lock() error
	Close() error
}

// FS opens files and changes directories.
type FS interface {
	// Open opens a regular file to read and append, and makes an empty one when create is set.
	Open(path string, create bool, perm fs.FileMode) (File, error)
	// OpenRead opens a regular file to read.
	OpenRead(path string) (File, error)
	Stat(path string) (Info, error)
	// Names lists a directory.
	Names(dir string) ([]string, error)
	Mkdir(dir string, perm fs.FileMode) error
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error
}

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("in use by another process")

// Full tells whether an error is one of no space left, which goes away by itself.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// MkdirAll makes a directory and what is missing above it, each entry durable. It says so when
// something else is in its place.
func MkdirAll(d FS, dir string, perm fs.FileMode) error {
	info, err := d.Stat(dir)
	switch {
	case err == nil && info.Mode.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s: is not a directory", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := MkdirAll(d, parent, perm); err != nil {
		return err
	}
	if err := d.Mkdir(dir, perm); err != nil {
		return err
	}
	return d.SyncDir(parent)
}

// Copy appends the bytes from..to of a file to another.
func Copy(dst File, src io.ReaderAt, from, to int64) error {
	n, err := io.Copy(struct{ io.Writer }{dst}, io.NewSectionReader(src, from, to-from))
	if err == nil && n < to-from {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// SetAside copies the bytes from..to of a file into a new one, durably: prefix with the next number
// after it. It returns the new file's path.
func SetAside(d FS, src io.ReaderAt, from, to int64, prefix string) (string, error) {
	numbers, err := Numbered(d, prefix)
	if err != nil {
		return "", err
	}
	next := uint64(1)
	if n := len(numbers); n > 0 {
		next = numbers[n-1] + 1
	}
	path := prefix + strconv.FormatUint(next, 10)
	f, err := d.Open(path, true, 0o600)
	if err != nil {
		return "", err
	}
	if err = Copy(f, src, from, to); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w", path, err), d.Remove(path))
	}
	return path, nil
}

// Numbered lists the numbers of the files that are called prefix and a number, rising.
func Numbered(d FS, prefix string) ([]uint64, error) {
	names, err := d.Names(filepath.Dir(prefix))
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, name := range names {
		if tail, ok := strings.CutPrefix(name, filepath.Base(prefix)); ok {
			if n, err := strconv.ParseUint(tail, 10, 63); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
