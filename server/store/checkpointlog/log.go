package checkpointlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/store"
)

// FileName is the log inside the data directory. Beside it lies lockName, while it is being rewritten
// a file with the suffix tempSuffix, and what an operator's recovery set aside, with damagedSuffix and
// a number.
const (
	FileName      = "checkpoint.log"
	lockName      = "lock"
	tempSuffix    = ".tmp"
	damagedSuffix = ".damaged-"
)

// Options of a [Log]; the zero value is good.
type Options struct {
	// Recover is the operator's decision to go on from the last checkpoint before a damage. The
	// damaged file is kept.
	Recover bool
	// Log tells of what was found at start and of rewriting; nil for nothing.
	Log *slog.Logger

	// For tests; zero for what the machine and the constants say.
	fs          disk.FS
	floor, part int64
}

// Log is the checkpoint log of one data directory: a [store.Store].
type Log struct {
	dir, path string
	options   Options
	fs        disk.FS
	log       *slog.Logger
	lock      disk.File
	number    uint64 // of the last checkpoint; Save's own

	mu      sync.Mutex
	waiting *group // collects what the next frame holds

	turn      sync.Mutex // whoever holds it writes; guards all below
	f         disk.File
	header    header
	seq       uint64 // of the last frame
	end       int64  // of the file
	limit     int64  // rewrite beyond it
	buf       []byte
	err       error // after a failure that leaves the file unknown
	rewriting bool

	closing    context.CancelFunc
	life       context.Context
	background sync.WaitGroup
}

var _ store.Store = (*Log)(nil)

// group is what becomes durable with one sync.
type group struct {
	entry entry
	done  chan struct{}
	err   error
}

// Open takes the data directory for this process and makes it when there is none. It fails when
// another process has it ([ErrInUse]), or when it can't be written to. What is in it is for Load.
func Open(dir string, o Options) (*Log, error) {
	l := &Log{dir: dir, path: filepath.Join(dir, FileName), options: o, fs: o.fs, log: o.Log}
	if l.fs == nil {
		l.fs = disk.OS
	}
	l.options.floor = cmp.Or(o.floor, rewriteFloor)
	l.options.part = cmp.Or(o.part, partSize)
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.life, l.closing = context.WithCancel(context.Background())
	if err := l.open(); err != nil {
		l.closing()
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return l, nil
}

// ErrInUse is wrapped by the error of Open when another process has the data directory.
var ErrInUse = disk.ErrLocked

func (l *Log) open() (err error) {
	if err := disk.MkdirAll(l.fs, l.dir, 0o700); err != nil {
		return err
	}
	if l.lock, err = l.fs.Open(filepath.Join(l.dir, lockName), true, 0o600); err != nil {
		return err
	}
	if err := l.lock.Lock(); err != nil {
		return errors.Join(err, l.lock.Close())
	}
	return nil
}

// Anchor makes the first image of a stream durable, or its seat; see [store.Store]. Calls at the same
// time, and a Save beside them, share one sync. The context is not looked at: a write that has begun
// can't be called off.
func (l *Log) Anchor(_ context.Context, change store.Change) error {
	if change.Seat != nil {
		if err := store.CheckSeat(change.Seat); err != nil {
			return fmt.Errorf("collector %q: %w", change.Collector, err)
		}
	}
	return l.commit(func(e *entry) { e.anchor(change) })
}

// Save makes a checkpoint durable; see [store.Store]. The context is not looked at.
func (l *Log) Save(_ context.Context, c *store.Checkpoint) error {
	if c.Number <= l.number {
		return fmt.Errorf("checkpoint %d after checkpoint %d: numbers rise", c.Number, l.number)
	}
	for _, change := range c.Changes {
		if change.Seat != nil {
			return fmt.Errorf("collector %q: a seat in checkpoint %d; allowed: Anchor", change.Collector, c.Number)
		}
	}
	err := l.commit(func(e *entry) { e.number, e.position, e.changes = c.Number, c.Position, c.Changes })
	if err == nil {
		l.number = c.Number
	}
	return err
}

// commit adds to the waiting group. Whoever opened the group writes it, as soon as the one before is
// durable.
func (l *Log) commit(add func(*entry)) error {
	l.mu.Lock()
	g := l.waiting
	leads := g == nil
	if leads {
		g = &group{done: make(chan struct{})}
		l.waiting = g
	}
	add(&g.entry)
	l.mu.Unlock()
	if !leads {
		<-g.done
		return g.err
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	l.waiting = nil
	l.mu.Unlock()
	g.err = l.write(&g.entry)
	close(g.done)
	return g.err
}

// write makes a frame durable, and leaves its mark behind it: a frame with a mark was durable, so
// that what is wrong with it later is damage, not a torn write.
func (l *Log) write(e *entry) error {
	if l.err != nil {
		return l.err
	}
	seed := l.header.seed()
	l.buf = e.appendFrame(l.buf[:0], l.seq+1, seed)
	size := int64(len(l.buf))
	if err := l.append(l.buf); err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		return l.fail(err)
	}
	l.buf = appendMark(l.buf[:0], l.seq+1, seed)
	if err := l.append(l.buf); err != nil {
		return err
	}
	l.seq, l.end = l.seq+1, l.end+size+int64(headSize)
	if cap(l.buf) > maxBuffer {
		l.buf = nil
	}
	l.startRewrite()
	return nil
}

const maxBuffer = 1 << 20 // what is kept from one frame to the next

// append writes at the end of the file. When that fails the file is cut back to its last good frame:
// no space left is then as if nothing had happened.
func (l *Log) append(b []byte) error {
	_, err := l.f.Write(b)
	if err == nil {
		return nil
	}
	if cut := l.f.Truncate(l.end); cut != nil || !disk.Full(err) {
		return l.fail(errors.Join(err, cut))
	}
	return fmt.Errorf("%w: %w", store.ErrTransient, err)
}

// fail ends the use of the file: what is on disk is known to the next Load only.
func (l *Log) fail(err error) error {
	l.err = fmt.Errorf("checkpoint log: %w", err)
	return l.err
}

// Close releases the data directory. It waits for a write that has begun, and gives up a rewriting.
func (l *Log) Close() error {
	l.turn.Lock()
	closed := errors.Is(l.err, errClosed)
	l.err = errClosed
	l.turn.Unlock()
	if closed {
		return nil
	}
	l.closing()
	l.background.Wait()
	var err error
	if l.f != nil {
		err = l.f.Close()
	}
	return errors.Join(err, l.lock.Close())
}

var errClosed = errors.New("checkpoint log: closed")
