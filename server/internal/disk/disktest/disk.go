package disktest

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/tidemark/tidemark/server/internal/disk"
)

const sector = 64 // bytes that are written whole or not at all; small, so that small files have many

// Op is a call that changes something, or may fail.
type Op string

// The calls that Hook sees.
const (
	Open     Op = "open"
	Read     Op = "read"
	Write    Op = "write"
	Sync     Op = "sync"
	Truncate Op = "truncate"
	Mkdir    Op = "mkdir"
	Rename   Op = "rename"
	Remove   Op = "remove"
	SyncDir  Op = "syncdir"
)

// Call is one of them.
type Call struct {
	Op    Op
	Path  string
	Bytes int // of a write
}

// Disk is a file system in memory. It may be used by many goroutines.
type Disk struct {
	// Hook is asked before each call; an error fails it. Of a write that fails the first n bytes go
	// through all the same. It may be changed while nothing is being called.
	Hook func(Call) (n int, err error)

	mu      sync.Mutex
	inodes  uint64
	names   map[string]*inode
	synced  map[string]*inode // the names a power cut leaves at least
	pending []change          // of names, since they were synced
}

type inode struct {
	number  uint64
	dir     bool
	data    []byte
	durable []byte
	locked  bool
}

// change sets a name, or takes it away when node is nil.
type change struct {
	path string
	node *inode
	old  string // a rename takes this name away in the same step
}

// New is an empty disk that has the directory / only.
func New() *Disk {
	root := &inode{dir: true}
	return &Disk{names: map[string]*inode{"/": root}, synced: map[string]*inode{"/": root}}
}

var _ disk.FS = (*Disk)(nil)

func (d *Disk) ask(op Op, path string, bytes int) (int, error) {
	if d.Hook == nil {
		return 0, nil
	}
	n, err := d.Hook(Call{op, path, bytes})
	if err != nil {
		err = &fs.PathError{Op: string(op), Path: path, Err: err}
	}
	return n, err
}

func failed(op Op, path string, err error) error {
	return &fs.PathError{Op: string(op), Path: path, Err: err}
}

func (c change) apply(names map[string]*inode) {
	delete(names, c.old)
	if c.node == nil {
		delete(names, c.path)
	} else {
		names[c.path] = c.node
	}
}

func (d *Disk) change(c change) {
	c.apply(d.names)
	d.pending = append(d.pending, c)
}

// Open implements [disk.FS].
func (d *Disk) Open(path string, create bool, _ fs.FileMode) (disk.File, error) {
	if _, err := d.ask(Open, path, 0); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	node := d.names[path]
	switch parent := d.names[filepath.Dir(path)]; {
	case node != nil && node.dir:
		return nil, failed(Open, path, syscall.EISDIR)
	case node == nil && (!create || parent == nil):
		return nil, failed(Open, path, fs.ErrNotExist)
	case node == nil && !parent.dir:
		return nil, failed(Open, path, syscall.ENOTDIR)
	case node == nil:
		d.inodes++
		node = &inode{number: d.inodes}
		d.change(change{path: path, node: node})
	}
	return &file{disk: d, path: path, node: node}, nil
}

// OpenRead implements [disk.FS].
func (d *Disk) OpenRead(path string) (disk.File, error) { return d.Open(path, false, 0) }

// Stat implements [disk.FS].
func (d *Disk) Stat(path string) (disk.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	node := d.names[path]
	if node == nil {
		return disk.Info{}, failed("stat", path, fs.ErrNotExist)
	}
	return node.info(), nil
}

func (n *inode) info() disk.Info {
	info := disk.Info{Size: int64(len(n.data)), Inode: n.number}
	if n.dir {
		info.Mode = fs.ModeDir
	}
	return info
}

// Names implements [disk.FS].
func (d *Disk) Names(dir string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for _, path := range slices.Sorted(maps.Keys(d.names)) {
		if path != dir && filepath.Dir(path) == dir {
			names = append(names, filepath.Base(path))
		}
	}
	return names, nil
}

// Mkdir implements [disk.FS].
func (d *Disk) Mkdir(dir string, _ fs.FileMode) error {
	if _, err := d.ask(Mkdir, dir, 0); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[dir] != nil {
		return failed(Mkdir, dir, fs.ErrExist)
	}
	d.change(change{path: dir, node: &inode{dir: true}})
	return nil
}

// Rename implements [disk.FS].
func (d *Disk) Rename(from, to string) error {
	if _, err := d.ask(Rename, from, 0); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	node := d.names[from]
	if node == nil {
		return failed(Rename, from, fs.ErrNotExist)
	}
	d.change(change{path: to, node: node, old: from})
	return nil
}

// Remove implements [disk.FS].
func (d *Disk) Remove(path string) error {
	if _, err := d.ask(Remove, path, 0); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[path] == nil {
		return failed(Remove, path, fs.ErrNotExist)
	}
	d.change(change{path: path})
	return nil
}

// SyncDir implements [disk.FS].
func (d *Disk) SyncDir(dir string) error {
	if _, err := d.ask(SyncDir, dir, 0); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var rest []change
	for _, c := range d.pending {
		if filepath.Dir(c.path) == dir {
			c.apply(d.synced)
		} else {
			rest = append(rest, c)
		}
	}
	d.pending = rest
	return nil
}

// Files lists all files with their bytes, for tests that look at or damage them.
func (d *Disk) Files() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := map[string][]byte{}
	for path, n := range d.names {
		if !n.dir {
			files[path] = slices.Clone(n.data)
		}
	}
	return files
}

// Replace puts a file with these bytes, durable, in a place, as another program may do; nil removes it.
func (d *Disk) Replace(path string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if data == nil {
		delete(d.names, path)
		delete(d.synced, path)
		return
	}
	d.inodes++
	n := &inode{number: d.inodes, data: slices.Clone(data), durable: slices.Clone(data)}
	d.names[path], d.synced[path] = n, n
}
