package disktest

import (
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/tidemark/tidemark/server/internal/disk"
)

// file is one opening of an inode.
type file struct {
	disk   *Disk
	path   string
	node   *inode
	locks  bool
	closed bool
}

func (f *file) usable(op Op) error {
	if f.closed {
		return failed(op, f.path, fs.ErrClosed)
	}
	return nil
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if _, err := f.disk.ask(Read, f.path, len(b)); err != nil {
		return 0, err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.usable(Read); err != nil || off >= int64(len(f.node.data)) {
		return 0, errors.Join(err, io.EOF)
	}
	n := copy(b, f.node.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Write(b []byte) (int, error) {
	n, err := f.disk.ask(Write, f.path, len(b))
	if err == nil {
		n = len(b)
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.usable(Write); err != nil {
		return 0, err
	}
	f.node.data = append(f.node.data, b[:n]...)
	return n, err
}

func (f *file) Sync() error {
	f.disk.mu.Lock()
	asked := slices.Clone(f.node.data)
	err := f.usable(Sync)
	f.disk.mu.Unlock()
	if err != nil {
		return err
	}
	if _, err := f.disk.ask(Sync, f.path, 0); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.node.durable = asked // what was written while it ran is not sure
	return nil
}

func (f *file) Truncate(size int64) error {
	if _, err := f.disk.ask(Truncate, f.path, 0); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.usable(Truncate); err != nil {
		return err
	}
	f.node.data = slices.Clone(f.node.data[:size])
	return nil
}

func (f *file) Stat() (disk.Info, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.node.info(), f.usable("stat")
}

func (f *file) Lock() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.node.locked {
		return failed("lock", f.path, disk.ErrLocked)
	}
	f.locks, f.node.locked = true, true
	return nil
}

func (f *file) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.usable("close"); err != nil {
		return err
	}
	f.closed = true
	if f.locks {
		f.node.locked = false
	}
	return nil
}
