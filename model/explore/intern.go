package explore

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemark/tidemark/model"
	"github.com/tidemark/tidemark/statemachine"
)

// pool holds each different item once, under its key. Goroutines share it; items never change.
type pool[T any] struct {
	mu    sync.RWMutex
	ids   map[string]uint32
	items []T
}

func (p *pool[T]) find(key []byte) (uint32, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	id, ok := p.ids[string(key)]
	return id, ok
}

// add makes an item for the key, unless another goroutine was faster.
func (p *pool[T]) add(key []byte, item func(id uint32) T) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, ok := p.ids[string(key)]; ok {
		return id
	}
	if p.ids == nil {
		p.ids = map[string]uint32{}
	}
	id := uint32(len(p.items))
	p.ids[string(key)] = id
	p.items = append(p.items, item(id))
	return id
}

// firsts tells which item of a pool was the first with a part of the key; the pool's lock guards it.
type firsts map[string]uint32

func (f firsts) first(part []byte, id uint32) uint32 {
	if old, ok := f[string(part)]; ok {
		return old
	}
	f[string(part)] = id
	return id
}

// view is a pool as one goroutine sees it: it reads without the lock what it has seen.
type view[T any] struct {
	*pool[T]
	seen []T
}

func (v *view[T]) at(id uint32) T {
	if int(id) >= len(v.seen) {
		v.mu.RLock()
		v.seen = v.items
		v.mu.RUnlock()
	}
	return v.seen[id]
}

// streamFacts is a stream and what the world wants to know of it again and again.
type streamFacts struct {
	stream               Stream
	plain                uint32 // the first stream that differs at most in what Dirty compares with
	image                uint32 // in search.images
	anchored, dirty      bool
	committed, watermark uint64
	inflight             []statemachine.Batch
	settled, kept        int   // settled batches, and those that the open checkpoint covers
	fault                error // why StreamSound does not hold
}

// imageFacts is an image, and the place of the same image in epoch 0.
type imageFacts struct {
	image statemachine.Image
	plain uint32
}

// sessionFacts is a session and what System.tla calls refused, named and told.
type sessionFacts struct {
	session Session
	statemachine.SessionState
}

// keepStream puts the stream at hand into the world, in its place among all streams.
func (e *expander) keepStream(w *world) {
	key, stored := e.stream.AppendKey(e.key[:0])
	e.key = key
	id, found := e.streams.find(key)
	if !found {
		facts := e.describe()
		id = e.streams.add(key, func(id uint32) *streamFacts {
			facts.plain = e.firstStreams.first(key[:stored], id)
			return facts
		})
		e.stream = e.maker.New(&e.Limits) // the old one is shared from now on
	}
	w.stream = id
	e.forgetStored(w)
}

// forgetStored makes worlds equal that are so for System.tla. A stream knows how the image of the last
// completed checkpoint differs from that of now, for Dirty. In the world this follows from the image in
// the store, but for the time when a later one is there already; then it is of no matter any more, as
// Complete comes next, or a crash.
func (e *expander) forgetStored(w *world) {
	if w.phase == saved {
		w.stream = e.streams.at(w.stream).plain
	}
}

func (e *expander) describe() *streamFacts {
	var st statemachine.State
	e.stream.State(&st)
	f := &streamFacts{
		stream: e.stream, dirty: e.stream.Dirty(),
		anchored: st.Anchored, committed: st.Committed, inflight: st.Inflight, settled: len(st.Settled),
		fault: e.stream.Sound(),
	}
	for _, mark := range st.Checkpoints {
		f.kept = mark.Settled
	}
	if f.fault == nil && !e.Limits.Sparse {
		f.fault = accounted(&st)
	}
	var img statemachine.Image
	e.stream.Image(&img)
	f.image, f.watermark = e.keepImage(img), img.Watermark
	return f
}

// accounted is Accounted of Stream.tla: without gaps by nature every number is here or asked for.
func accounted(st *statemachine.State) error {
	for id := st.Committed + 1; id <= st.Received; id++ {
		missing := slices.ContainsFunc(st.Missing, func(r statemachine.Range) bool { return r.First <= id && id <= r.Last })
		known := slices.ContainsFunc(st.Digests, func(d statemachine.Digest) bool { return d.ID == id })
		if !missing && !known {
			return fmt.Errorf("not accounted: %d is neither missing nor known", id)
		}
	}
	return nil
}

func (e *expander) keepImage(img statemachine.Image) uint32 {
	return e.images.add([]byte(model.FormatImage(&img)), func(id uint32) *imageFacts {
		same := img
		same.Epoch = 0
		return &imageFacts{img, e.firstImages.first([]byte(model.FormatImage(&same)), id)}
	})
}

// keepSession is keepStream for the session at hand.
func (e *expander) keepSession(w *world) {
	st := &e.state
	e.session.State(st)
	key := binary.AppendUvarint(binary.AppendUvarint(e.key[:0], st.Named), st.Told)
	for _, r := range st.Refused {
		key = binary.AppendUvarint(binary.AppendUvarint(key, r.First), r.Last)
	}
	e.key = key
	id, found := e.sessions.find(key)
	if !found {
		facts := &sessionFacts{session: e.session, SessionState: *st}
		id = e.sessions.add(key, func(uint32) *sessionFacts { return facts })
		e.session, e.state = e.maker.Connect(), statemachine.SessionState{}
	}
	w.session = id
}
