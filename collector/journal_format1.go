package collector

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/protocol"
)

// The format before this one was a single file, journal: a header and frames, with one record under each number.
//
//	body    kind (1), number (uvarint), length of the source (uvarint), source, records
const (
	journalMagic1 = "tidebuf\x01"
	journalName1  = "journal"
)

// convert makes a segment of a journal of format 1, whose numbers go on, and yields its name. When there are segments it was
// converted before.
func (j *Journal) convert(names []uint64) ([]uint64, error) {
	path := filepath.Join(j.dir, journalName1)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || len(names) > 0 {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	old := journal1{next: 1}
	end, err := old.load(path, text)
	if err != nil {
		return nil, err
	}
	if j.cut = int64(len(text) - end); j.cut > 0 {
		if j.cutFile, err = setAside(path, text[end:]); err != nil {
			return nil, err
		}
	}
	return j.replace(old)
}

// converted removes a journal of format 1, now that what was made of it is there and whole.
func (j *Journal) converted() error {
	err := os.Remove(filepath.Join(j.dir, journalName1))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, syncDir(j.dir))
}

// replace writes what a journal of format 1 held as a segment.
func (j *Journal) replace(old journal1) ([]uint64, error) {
	instance, err := newInstance(j.o.Random)
	if err != nil {
		return nil, err
	}
	first := old.next - uint64(len(old.held))
	now := Journal{next: first, watermark: first - 1, source: old.source, numbers: Numbers{Instance: instance, Known: true}, confirmed: true}
	text := appendFrame([]byte(journalMagic), now.head())
	f := frame{kind: kindBatches, at: int64(len(text)), watermark: first - 1, number: first, source: old.source}
	text, at := beginFrame(text, f)
	for _, record := range old.held {
		text = appendEntry(text, Batch{1, protocol.AppendRecord(nil, record)})
	}
	file, err := j.place(first, endFrame(text, at))
	if err != nil {
		return nil, err
	}
	return []uint64{first}, file.Close()
}

// journal1 is what a journal of format 1 holds.
type journal1 struct {
	next, watermark uint64
	source          []byte
	held            [][]byte
}

// load takes all frames, and tells where what is torn begins.
func (o *journal1) load(path string, text []byte) (end int, err error) {
	if len(text) < len(journalMagic1) || string(text[:len(journalMagic1)]) != journalMagic1 {
		return 0, fmt.Errorf("%s: is not a journal of this program", path)
	}
	at := len(journalMagic1)
	for at < len(text) {
		body, err := wholeFrame(text[at:])
		if err != nil {
			behind := findFrame1(text[at:])
			if behind < 0 {
				break
			}
			err = fmt.Errorf("the frame is not whole, but one at offset %d is"+advise, at+behind)
		} else {
			err = o.take(body, at == len(journalMagic1))
		}
		if err != nil {
			return 0, fmt.Errorf("%s: damaged at offset %d: %w", path, at, err)
		}
		at += frameHead + len(body)
	}
	return at, nil
}

// take applies the body of a frame.
func (o *journal1) take(body []byte, first bool) error {
	w := words{rest: body[1:]}
	number, source := w.uvarint(), w.bytes()
	if w.bad || number >= protocol.MaxID {
		return errNonsense
	}
	switch body[0] {
	case kindBatches1:
		if number != o.next {
			return fmt.Errorf("records from number %d, and %d comes next", number, o.next)
		}
		for record, err := range protocol.Records(w.rest) {
			if err != nil {
				return err
			}
			if o.next >= protocol.MaxID { // no number is left for one more
				return errNonsense
			}
			o.held = append(o.held, record)
			o.next++
		}
		o.source = source
	case kindAcknowledged:
		if first { // says where the numbers go on
			o.next, o.watermark = number+1, number
		}
		if number >= o.next || number < o.watermark {
			return fmt.Errorf("watermark %d, allowed is %d to %d", number, o.watermark, o.next-1)
		}
		o.held = o.held[number-o.watermark:]
		o.watermark = number
	case kindSource:
		o.source = source
	default:
		return fmt.Errorf("a frame of unknown kind %q", body[0])
	}
	return nil
}

const kindBatches1 = 'R'

// findFrame1 looks for a whole frame that begins behind the first byte of b, which a write that was torn does not have
// behind it. It returns its offset, or -1.
func findFrame1(b []byte) int {
	for at := 1; at+frameHead < len(b); at++ {
		switch b[at+frameHead] {
		case kindBatches1, kindAcknowledged, kindSource:
			if body, err := wholeFrame(b[at:]); err == nil {
				w := words{rest: body[1:]}
				w.uvarint()
				if w.bytes(); !w.bad {
					return at
				}
			}
		}
	}
	return -1
}
