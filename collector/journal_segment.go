package collector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const (
	segmentPrefix = "journal."
	segmentDigits = 19 // of the largest number
	tempName      = "journal.tmp"
	cutSuffix     = ".cut-"
)

// segment is one file of a journal. Of one that is read only, all bytes are durable.
type segment struct {
	first  uint64 // id of its first batch, and its name
	size   int64
	synced int64 // durable of these; behind it is at most a mark
}

func (j *Journal) path(first uint64) string {
	return filepath.Join(j.dir, fmt.Sprintf("%s%0*d", segmentPrefix, segmentDigits, first))
}

// current is the segment that is written to; the caller leads.
func (j *Journal) current() segment { return j.segments[len(j.segments)-1] }

// head is the first frame of a segment: what a reader needs to know when the ones before are gone.
func (j *Journal) head() frame {
	unconfirmed := j.unconfirmed
	if j.confirmed {
		unconfirmed = 0
	}
	rest := j.numbers.append(binary.AppendUvarint(nil, unconfirmed))
	return frame{kind: kindHead, at: int64(len(journalMagic)), watermark: j.watermark, number: j.next, source: j.source, rest: rest}
}

// rotate begins a new segment; the caller leads. The one before is durable first, so that only the last one can end in
// the middle of a frame. An error for which full is true changed nothing.
func (j *Journal) rotate() error {
	if s := j.current(); s.synced < s.size {
		if err := j.f.Sync(); err != nil {
			return j.fail(err)
		}
	}
	j.mu.Lock()
	head := j.head()
	j.mu.Unlock()
	before := j.f
	err := j.begin(head.number, appendFrame([]byte(journalMagic), head))
	if full(err) {
		return err
	}
	if err == nil {
		err = before.Close()
	}
	if err != nil {
		return j.fail(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.marked = head.watermark
	return nil
}

// begin makes a segment of a text and writes to it from now on.
func (j *Journal) begin(first uint64, text []byte) error {
	f, err := j.place(first, text)
	if err != nil {
		return err
	}
	j.f = f
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.segments); n > 0 {
		j.segments[n-1].synced = j.segments[n-1].size
	}
	j.segments = append(j.segments, segment{first, int64(len(text)), int64(len(text))})
	j.bytes += int64(len(text))
	return nil
}

// place writes a text to the file of a segment, which appears under its name when it is durable.
func (j *Journal) place(first uint64, text []byte) (segmentFile, error) {
	temp := filepath.Join(j.dir, tempName)
	f, err := j.create(temp)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(temp, j.path(first))
	}
	if err == nil {
		err = syncDir(j.dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// tend does what acknowledgements made due: it deletes segments and writes the watermark, which is durable with the next
// sync. The caller leads.
func (j *Journal) tend() {
	j.mu.Lock()
	watermark, due, failed := j.watermark, j.watermark > j.marked, j.err != nil || j.f == nil
	j.mu.Unlock()
	if failed || !due && !j.disposable() {
		return
	}
	for j.disposable() {
		// One after the other, so that those that are left have no gap between them.
		err := os.Remove(j.path(j.segments[0].first))
		if err == nil {
			err = syncDir(j.dir)
		}
		if err != nil {
			j.fail(err)
			return
		}
		j.mu.Lock()
		j.bytes -= j.segments[0].size
		j.segments = slices.Delete(j.segments, 0, 1)
		j.mu.Unlock()
	}
	if due {
		j.writing = appendFrame(j.writing[:0], frame{kind: kindAcknowledged, at: j.current().synced, watermark: watermark})
		if err := j.write(watermark, false); err != nil && !full(err) {
			return
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.marked = watermark
	close(j.freed)
	j.freed = make(chan struct{})
}

// disposable tells whether the oldest segment is not written to and all in it is acknowledged.
func (j *Journal) disposable() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.segments) > 1 && j.segments[1].first <= j.watermark+1
}

// makeDir makes a folder and what is missing above it, durably.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s: is not a folder", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func newInstance(random io.Reader) (string, error) {
	raw := make([]byte, instanceBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("no random bytes for an instance: %w", err)
	}
	return fmt.Sprintf("%x", raw), nil
}
