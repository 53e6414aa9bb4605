package collector

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/protocol"
)

// load reads the segments, or makes the first one.
func (j *Journal) load() error {
	names, err := j.names()
	if err != nil {
		return err
	}
	if names, err = j.convert(names); err != nil {
		return err
	}
	if len(names) == 0 {
		j.unconfirmed = j.next
		if j.numbers.Instance, err = newInstance(j.o.Random); err != nil {
			return err
		}
		return j.begin(j.next, appendFrame([]byte(journalMagic), j.head()))
	}
	var held tally
	for i, first := range names {
		if err := j.loadSegment(first, &held, i == 0, i == len(names)-1); err != nil {
			return err
		}
	}
	if j.unconfirmed == 0 {
		j.unconfirmed = j.next
	}
	j.unconfirmed = max(j.unconfirmed, j.watermark+1)
	j.marked, j.records, j.source = j.watermark, held.records, bytes.Clone(j.source)
	return j.converted()
}

// tally counts the records of what is held while a journal is read.
type tally struct {
	batches queue[int]
	records uint64
}

func (t *tally) add(records int) {
	t.batches.push(records)
	t.records += uint64(records)
}

func (t *tally) drop(batches uint64) {
	for range batches {
		t.records -= uint64(t.batches.pop())
	}
}

// names are the first ids of the segments that are there, rising. What a crash left half made is removed.
func (j *Journal) names() (list []uint64, err error) {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), segmentPrefix)
		n, err := strconv.ParseUint(digits, 10, 63)
		if ok && err == nil && len(digits) == segmentDigits {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	if err := os.Remove(filepath.Join(j.dir, tempName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return list, nil
}

// loadSegment takes all frames of a segment, and cuts the last one where it ends in what was never synced.
func (j *Journal) loadSegment(first uint64, held *tally, oldest, last bool) error {
	path := j.path(first)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(text) < len(journalMagic) || string(text[:len(journalMagic)]) != journalMagic {
		return fmt.Errorf("%s: is not a segment of this program's journal, or of a newer format", path)
	}
	at := len(journalMagic)
	for at < len(text) {
		f, size, err := parseFrame(text[at:])
		if errors.Is(err, errTorn) {
			if err = torn(text, at, last); err == nil {
				break
			}
		}
		if err == nil && f.at != int64(at) {
			err = fmt.Errorf("the frame is that of offset %d", f.at)
		}
		if err == nil && at == len(journalMagic) {
			err = j.takeHead(f, first, oldest, held)
		} else if err == nil {
			err = j.take(f, held)
		}
		if err != nil {
			return fmt.Errorf("%s: damaged at offset %d: %w", path, at, err)
		}
		at += size
	}
	if at == len(journalMagic) {
		return fmt.Errorf("%s: damaged at offset %d: it does not say where it begins", path, at)
	}
	j.segments = append(j.segments, segment{first, int64(at), int64(at)})
	j.bytes += int64(at)
	if !last {
		return nil
	}
	return j.settle(path, text, int64(at))
}

// torn tells why a frame that is not whole is damage, or nil: then it is of a write that was never synced.
func torn(text []byte, at int, last bool) error {
	if !last {
		return errors.New("the frame is not whole, and a later segment is there" + advise)
	}
	if at == len(journalMagic) {
		return errors.New("the first frame is not whole" + advise)
	}
	if behind := proof(text[at:], int64(at)); behind >= 0 {
		return fmt.Errorf("the frame is not whole, but one at offset %d was written after it"+advise, behind)
	}
	return nil
}

const advise = "; put the file in order from a copy, or move the buffer away and use another collector name"

// settle makes the last segment durable, up to where it ends and without what is torn, and goes on with it.
func (j *Journal) settle(path string, text []byte, end int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	j.f = f
	if cut := int64(len(text)) - end; cut > 0 {
		j.cut = cut
		if j.cutFile, err = setAside(path, text[end:]); err != nil {
			return err
		}
		if err := syncDir(j.dir); err != nil {
			return err
		}
		if err := f.Truncate(end); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return syncDir(j.dir)
}

// setAside keeps what is cut off in a file of its own; each has the next free number.
func setAside(path string, torn []byte) (name string, err error) {
	for n := 1; ; n++ {
		f, err := os.OpenFile(path+cutSuffix+strconv.Itoa(n), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(torn)
		return f.Name(), errors.Join(err, f.Sync(), f.Close())
	}
}

// takeHead applies the first frame of a segment at start. That of the oldest one brings news; a later one has to agree.
func (j *Journal) takeHead(f frame, first uint64, oldest bool, held *tally) error {
	w := words{rest: f.rest}
	unconfirmed := w.uvarint()
	numbers := w.numbers()
	switch {
	case f.kind != kindHead || w.bad || len(w.rest) > 0:
		return errNonsense
	case f.number != first || f.watermark >= first || unconfirmed > first:
		return fmt.Errorf("it begins with id %d behind %d and %d, and its name says %d", f.number, f.watermark, unconfirmed, first)
	case oldest: // what is below it is gone, as all of it was acknowledged
		j.next, j.watermark, j.source, j.numbers, j.unconfirmed = first, first-1, f.source, numbers, unconfirmed
	case first != j.next:
		return fmt.Errorf("it begins with id %d, and %d comes next: a segment is missing", first, j.next)
	case numbers != j.numbers || !bytes.Equal(f.source, j.source):
		return errors.New("it begins with other numbers or another source than what is before it ends with: a segment has lost its end" + advise)
	default:
		j.forget(f.watermark, held)
		j.unconfirmed = unconfirmed
	}
	return nil
}

// take applies a frame at start.
func (j *Journal) take(f frame, held *tally) error {
	w := words{rest: f.rest}
	if f.watermark >= j.next {
		return fmt.Errorf("watermark %d, and the next id is %d", f.watermark, j.next)
	}
	j.forget(f.watermark, held)
	switch f.kind {
	case kindBatches, kindUnconfirmed:
		if f.number != j.next {
			return fmt.Errorf("batches from id %d, and %d comes next", f.number, j.next)
		}
		for len(w.rest) > 0 {
			b, ok := w.entry()
			if !ok {
				return errNonsense
			}
			if err := protocol.CheckRecords(b.Payload, b.Records); err != nil {
				return err
			}
			if j.next >= protocol.MaxID { // no id is left for one more
				return errNonsense
			}
			held.add(b.Records)
			j.next++
		}
		j.source = f.source
		if f.kind == kindBatches {
			j.unconfirmed = 0
		} else if j.unconfirmed == 0 {
			j.unconfirmed = f.number
		}
	case kindAcknowledged:
	case kindSource:
		j.source = f.source
	case kindNumbers:
		if j.numbers = w.numbers(); w.bad || len(w.rest) > 0 {
			return errNonsense
		}
		j.unconfirmed = 0
	default:
		return fmt.Errorf("a frame of unknown kind %q", f.kind)
	}
	return nil
}

// forget applies a watermark at start.
func (j *Journal) forget(watermark uint64, held *tally) {
	if watermark > j.watermark {
		held.drop(watermark - j.watermark)
		j.watermark = watermark
	}
}
