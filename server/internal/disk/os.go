package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// OS is the file system of the machine.
var OS FS = system{}

type system struct{}

type osFile struct{ *os.File }

func (system) Open(path string, create bool, perm fs.FileMode) (File, error) {
	flags := os.O_RDWR | os.O_APPEND
	if create {
		flags |= os.O_CREATE
	}
	return open(path, flags, perm)
}

func (system) OpenRead(path string) (File, error) { return open(path, os.O_RDONLY, 0) }

// open refuses what is no regular file before it opens it: opening a named pipe may wait for ever.
func open(path string, flags int, perm fs.FileMode) (File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file but %s", path, kind(info.Mode()))
	}
	f, err := os.OpenFile(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

func (system) Stat(path string) (Info, error) { return toInfo(os.Stat(path)) }

func (f osFile) Stat() (Info, error) { return toInfo(f.File.Stat()) }

func toInfo(info fs.FileInfo, err error) (Info, error) {
	if err != nil {
		return Info{}, err
	}
	out := Info{Size: info.Size(), Mode: info.Mode()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out.Inode = st.Ino
	}
	return out, nil
}

func (system) Names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Close())
}

func (system) Mkdir(dir string, perm fs.FileMode) error { return os.Mkdir(dir, perm) }
func (system) Rename(from, to string) error             { return os.Rename(from, to) }
func (system) Remove(path string) error                 { return os.Remove(path) }

func (system) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f osFile) Lock() error {
	err := f.control("flock", func(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%s: %w", f.Name(), ErrLocked)
	}
	return err
}

// control makes a system call that a Close at the same time can't turn towards another file.
func (f osFile) control(name string, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for {
			if failed = call(int(fd)); !errors.Is(failed, syscall.EINTR) {
				return
			}
		}
	})
	if err == nil && failed != nil {
		err = &fs.PathError{Op: name, Path: f.Name(), Err: failed}
	}
	return err
}
