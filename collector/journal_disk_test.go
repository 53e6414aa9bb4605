package collector

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// faulty is a segment's file that fails as a test says.
type faulty struct {
	segmentFile
	write, sync, cut error // nil: none
	part             int   // of a write that fails
	written          int   // bytes
	syncs            int
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.write != nil {
		n, err := f.segmentFile.Write(p[:min(f.part, len(p))])
		return n, errors.Join(f.write, err)
	}
	n, err := f.segmentFile.Write(p)
	f.written += n
	return n, err
}

func (f *faulty) Sync() error {
	f.syncs++
	return errors.Join(f.sync, f.segmentFile.Sync())
}

func (f *faulty) Truncate(size int64) error { return errors.Join(f.cut, f.segmentFile.Truncate(size)) }

// breakable lets a test break the file that the journal writes to.
func breakable(j *Journal) *faulty {
	f := &faulty{segmentFile: j.f}
	j.f = f
	return f
}

// mend changes what a writer of the journal may look at.
func mend(j *Journal, change func()) {
	j.lead <- struct{}{}
	change()
	<-j.lead
}

// A disk without room is waited for, whether the write wrote something or nothing; what was written of it is gone.
func TestJournalDiskFull(t *testing.T) {
	for _, part := range []int{0, 7, 1000} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			j := openJournal(t, dir)
			require.NoError(t, appends(j, "", "one"))
			f := breakable(j)
			f.write, f.part = unix.ENOSPC, part
			waits := make(chan error, 1)
			go func() { waits <- appends(j, "", "two") }()
			synctest.Wait()
			_, full := j.Usage()
			require.True(t, full)
			require.NoError(t, acknowledge(j, 1), "it comes to the disk with the next write")
			mend(j, func() { f.write = nil })
			require.NoError(t, <-waits)
			_, full = j.Usage()
			require.False(t, full)
			require.NoError(t, j.Close())
			j = openJournal(t, dir)
			cut, _ := j.Cut()
			require.Zero(t, cut)
			requireHeld(t, j, "2:two")
		})
	}
}

// No room for a new segment is the same case.
func TestJournalDiskFullAtRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := openSmall(t, t.TempDir(), JournalOptions{SegmentBytes: 1})
		require.NoError(t, appends(j, "", "one"))
		create := j.create
		j.create = func(path string) (segmentFile, error) {
			f, err := create(path)
			return &faulty{segmentFile: f, sync: unix.EDQUOT}, err
		}
		waits := make(chan error, 1)
		go func() { waits <- appends(j, "", "two") }()
		synctest.Wait()
		_, full := j.Usage()
		require.True(t, full)
		mend(j, func() { j.create = create })
		require.NoError(t, <-waits)
		requireHeld(t, j, "1:one", "2:two")
	})
}

// After any other failure the journal is over: nothing is tried again on that file.
func TestJournalDiskFails(t *testing.T) {
	broken := errors.New("broken")
	for name, change := range map[string]func(*faulty){
		"write":             func(f *faulty) { f.write = broken },
		"part of a write":   func(f *faulty) { f.write, f.part = broken, 5 },
		"sync":              func(f *faulty) { f.sync = broken },
		"sync without room": func(f *faulty) { f.sync = errors.Join(broken, unix.ENOSPC) },
		"truncate":          func(f *faulty) { f.write, f.part, f.cut = unix.ENOSPC, 5, broken },
	} {
		dir := t.TempDir()
		j := openJournal(t, dir)
		require.NoError(t, appends(j, "", "one"))
		f := breakable(j)
		change(f)
		require.ErrorIs(t, appends(j, "", "two"), broken, name)
		f.write, f.sync, f.cut = nil, nil, nil
		syncs, written := f.syncs, f.written
		require.ErrorIs(t, appends(j, "", "three"), broken, name)
		require.ErrorIs(t, acknowledge(j, 1), broken, name)
		require.ErrorIs(t, j.Finish(), broken, name)
		_, _, _, err := j.Read()
		require.ErrorIs(t, err, broken, name)
		require.Equal(t, written, f.written, name)
		require.Equal(t, syncs, f.syncs, name)
		require.NoError(t, j.Close())
		j = openJournal(t, dir)
		list, err := readAll(j)
		require.NoError(t, err)
		require.Equal(t, "1:one", list[0], name)
	}
}

// What was read from the disk is checked again.
func TestJournalRotten(t *testing.T) {
	j := openJournal(t, t.TempDir())
	require.NoError(t, appends(j, "", "one", "two"))
	text, err := os.ReadFile(j.path(1))
	require.NoError(t, err)
	text[len(text)-1] ^= 1
	require.NoError(t, os.WriteFile(j.path(1), text, 0o600))
	_, _, _, err = j.Read()
	require.ErrorContains(t, err, j.path(1)+": damaged at offset ")
	require.ErrorContains(t, appends(j, "", "three"), "damaged at offset")
}

// The mark at the end of a segment is durable before there is a later one, or it could not be told from damage.
func TestJournalSyncsBeforeTheNextSegment(t *testing.T) {
	j := openSmall(t, t.TempDir(), JournalOptions{SegmentBytes: 1})
	require.NoError(t, appends(j, "", "one", "two"))
	require.NoError(t, acknowledge(j, 1))
	f := breakable(j)
	require.NoError(t, appends(j, "", "three"))
	require.Len(t, j.segments, 2)
	require.Equal(t, 1, f.syncs)
	require.Zero(t, f.written, "the batch is in the new one")
	require.NoError(t, acknowledge(j, 2))
	f = breakable(j)
	f.sync = errors.New("broken")
	require.ErrorIs(t, appends(j, "", "four"), f.sync)
}
