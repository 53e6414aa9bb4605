package checkpointlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/store"
)

// Load reads the log, makes what it found durable, and returns it. A missing log is a first run. An
// unfinished write at the end is cut off. Anything else that is wrong is a [*Damage], or with
// Options.Recover is left behind. A log in an older format is replaced; when that fails it stays.
func (l *Log) Load(context.Context) (*store.Stored, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	if err := l.fs.Remove(l.path + tempSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, l.fail(err)
	}
	st, err := l.load()
	if err != nil {
		return nil, l.fail(err)
	}
	l.number = st.Number
	l.limit = l.rewriteLimit(wholeSize(st))
	return st, nil
}

func (l *Log) load() (*store.Stored, error) {
	f, err := l.fs.Open(l.path, false, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		st := newStored()
		return st, l.create(st, 0)
	}
	if err != nil {
		return nil, err
	}
	l.f = f
	r, st, damage, err := readGood(f, l.path)
	switch {
	case err != nil:
		return nil, err
	case damage != nil && l.options.Recover:
		return st, l.recover(r, st, damage)
	case damage != nil:
		return nil, fmt.Errorf("%w; the last checkpoint before that is %d",
			damage, st.Number)
	}
	l.header, l.seq = r.header, r.seq
	if err := l.settle(r); err != nil || r.format == format {
		return st, err
	}
	return st, l.upgrade(st)
}

// upgrade puts a log of today's format in the place of an older one. A crash leaves the one or the
// other, which hold the same.
func (l *Log) upgrade(st *store.Stored) error {
	from := l.header.format
	if err := l.create(st, l.parts(l.end)); err != nil {
		return fmt.Errorf("rewriting %s from format %d to format %d: %w", l.path, from, format, err)
	}
	l.log.Info("the checkpoint log has a new format, which older programs refuse", "file", l.path, "format", format, "format_before", from)
	return nil
}

// settle makes what was read durable, before anyone answers from it: the last life may have left it
// in memory only. The last frame has its mark then, even when a crash came before it.
func (l *Log) settle(r *reader) error {
	if r.torn != "" {
		l.log.Warn("an unfinished write at the end of the checkpoint log is cut off", "file", l.path,
			"offset", r.end, "bytes", r.size-r.end, "found", r.torn)
		if err := l.f.Truncate(r.end); err != nil {
			return err
		}
	}
	if err := l.f.Sync(); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.end = r.end
	if r.sealed {
		return nil
	}
	if _, err := l.f.Write(appendMark(nil, l.seq, l.header.seed())); err != nil {
		return err
	}
	l.end += int64(headSize)
	return nil
}

// create begins a new log that holds st, in the place of any older one, and goes on with it.
func (l *Log) create(st *store.Stored, parts uint64) error {
	var id [8]byte
	rand.Read(id[:])
	h := header{format: format, id: binary.LittleEndian.Uint64(id[:]), first: 1}
	w, err := l.newTemp(h)
	for i := uint32(0); err == nil && i < uint32(parts); i++ {
		err = w.whole(st, share{i, uint32(parts)})
	}
	err = l.replace(w, h, err)
	l.seq = parts
	return err
}

// recover goes on from the frames before the damage and keeps the damaged file. The checkpoint number
// stays above all that can still be read, since numbers rise for the life of the store.
func (l *Log) recover(r *reader, st *store.Stored, damage *Damage) error {
	lost, err := r.lastNumber()
	if err != nil {
		return err
	}
	aside, err := disk.SetAside(l.fs, l.f, 0, r.size, l.path+damagedSuffix)
	if err != nil {
		return err
	}
	l.log.Warn("the checkpoint log is damaged; what was acknowledged after the checkpoint it goes on from may be lost",
		"found", damage.Error(), "checkpoint", st.Number, "last_checkpoint_seen", max(lost, st.Number),
		"streams", len(st.Images), "kept", aside)
	st.Number = max(st.Number, lost) + 1
	return l.create(st, l.parts(r.size))
}
