package checkpointlog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/tidemark/tidemark/server/internal/disk"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// share is one of several parts of all streams, so that images need not be in memory all at once.
type share struct{ index, of uint32 }

var everything = share{0, 1}

func (s share) has(collector string) bool {
	return s.of == 1 || crc32.Checksum([]byte(collector), castagnoli)%s.of == s.index
}

func newStored() *store.Stored {
	return &store.Stored{Images: map[string]*statemachine.Image{}, Seats: map[string]statemachine.SeatImage{}}
}

// replay applies the frames from where the reader stands to its end. Of streams outside of the share
// it keeps nothing.
func replay(r *reader, part share) (*store.Stored, error) {
	st := newStored()
	for {
		e, err := r.next()
		if err == io.EOF {
			for _, img := range st.Images {
				ownPayloads(img)
			}
			return st, nil
		}
		if err != nil {
			return nil, err
		}
		if err := apply(st, e, part, r); err != nil {
			return nil, err
		}
	}
}

func apply(st *store.Stored, e *entry, part share, r *reader) error {
	if e.number != 0 {
		if e.number <= st.Number {
			return &Damage{r.path, r.start, fmt.Sprintf("checkpoint %d follows checkpoint %d", e.number, st.Number)}
		}
		st.Number, st.Position = e.number, bytes.Clone(e.position)
	}
	for i, list := range [...][]store.Change{e.anchors, e.changes} {
		for _, c := range list {
			img := st.Images[c.Collector]
			if !part.has(c.Collector) || i == 0 && img != nil {
				continue // a first image never replaces a later one
			}
			if img == nil {
				img = new(statemachine.Image)
				st.Images[c.Collector] = img
			}
			if err := img.Apply(bytes.Clone(c.Delta)); err != nil { // payloads alias it, and the window is used again
				return &Damage{r.path, r.start, fmt.Sprintf("collector %q: %v", c.Collector, err)}
			}
		}
	}
	for _, s := range e.seats {
		if part.has(s.collector) {
			st.Seats[s.collector] = s.image
		}
	}
	return nil
}

// ownPayloads copies the payloads that are left, so that the deltas they came in can go.
func ownPayloads(img *statemachine.Image) {
	for i := range img.Queue {
		img.Queue[i].Payload = bytes.Clone(img.Queue[i].Payload)
	}
}

// readGood reads the frames before the first damage, and returns that too. Damage in the header is
// passed over: the frames tell by themselves whether they are good.
func readGood(f disk.File, path string) (*reader, *store.Stored, *Damage, error) {
	limit := int64(math.MaxInt64)
	var first *Damage
	for {
		r, err := newReader(f, path)
		if err != nil && !errors.As(err, &first) {
			return nil, nil, nil, err
		}
		size := r.size
		r.size = min(size, limit)
		st, err := replay(r, everything)
		r.size = size
		var found *Damage
		if !errors.As(err, &found) {
			return r, st, first, err
		}
		limit = found.Offset
		if first == nil {
			first = found
		}
	}
}
