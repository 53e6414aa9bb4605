package explore

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/model"
	"github.com/tidemark/tidemark/statemachine"
)

// streamPools are the streams and images of a search.
type streamPools struct {
	streams                   pool[*streamFacts]
	images                    pool[*imageFacts]
	firstStreams, firstImages firsts
}

func newStreamPools() *streamPools {
	return &streamPools{firstStreams: firsts{}, firstImages: firsts{}}
}

// streamFacts is a stream and what the world wants to know of it again and again.
type streamFacts struct {
	stream    Stream
	plain     uint32 // the first stream that differs at most in what Dirty compares with
	image     uint32 // in streamPools.images
	dirty     bool
	watermark uint64
	kept      int // settled batches that the open checkpoint covers
	statemachine.State
	unsound, unaccounted error // why Sound and Accounted do not hold
}

// imageFacts is an image, and the place of the same image in epoch 0.
type imageFacts struct {
	image statemachine.Image
	plain uint32
}

// streamHand is what one goroutine has to take a step of a stream. The first that is put is the stream in place 0.
type streamHand struct {
	pools   *streamPools
	streams view[*streamFacts]
	images  view[*imageFacts]

	maker  StreamMaker
	limits *statemachine.Limits
	stream Stream // to try a step on
	key    []byte
}

func newStreamHand(pools *streamPools, m StreamMaker, limits *statemachine.Limits) streamHand {
	return streamHand{
		pools: pools, streams: view[*streamFacts]{pool: &pools.streams}, images: view[*imageFacts]{pool: &pools.images},
		maker: m, limits: limits, stream: m.New(limits),
	}
}

// putStream is the place of the stream at hand among all streams.
func (e *streamHand) putStream() uint32 {
	key, stored := e.stream.AppendKey(e.key[:0])
	e.key = key
	id, found := e.streams.find(key)
	if !found {
		facts := e.describe()
		id = e.streams.add(key, func(id uint32) *streamFacts {
			facts.plain = e.pools.firstStreams.first(key[:stored], id)
			return facts
		})
		e.stream = e.maker.New(e.limits) // the old one is shared from now on
	}
	return id
}

// forgetStored is the stream in the place of one, by the phase of its checkpoint. It makes worlds equal that are so
// for the specification. A stream knows how the image of the last completed checkpoint differs from that of now, for
// Dirty. In the world this follows from the image in the store, but for the time when a later one is there
// already; then it is of no matter any more, as Complete comes next, or a crash.
func (e *streamHand) forgetStored(stream uint32, p phase) uint32 {
	if p == saved {
		return e.streams.at(stream).plain
	}
	return stream
}

func (e *streamHand) describe() *streamFacts {
	f := &streamFacts{stream: e.stream, dirty: e.stream.Dirty(), unsound: e.stream.Sound()}
	e.stream.State(&f.State)
	f.unaccounted = accounted(&f.State)
	for _, mark := range f.Checkpoints {
		f.kept = mark.Settled
	}
	var img statemachine.Image
	e.stream.Image(&img)
	f.image, f.watermark = e.putImage(img), img.Watermark
	return f
}

// accounted is Accounted of Stream.tla: without gaps by nature every number is here or asked for.
func accounted(st *statemachine.State) error {
	for id := st.Committed + 1; id <= st.Received; id++ {
		if !known(st, id) {
			return fmt.Errorf("not accounted: %d is neither missing nor known", id)
		}
	}
	return nil
}

// known tells whether a number is missing or has a digest.
func known(st *statemachine.State, id uint64) bool {
	return missing(st, id) || slices.ContainsFunc(st.Digests, func(d statemachine.Digest) bool { return d.ID == id })
}

func missing(st *statemachine.State, id uint64) bool {
	return slices.ContainsFunc(st.Missing, func(r statemachine.Range) bool { return r.First <= id && id <= r.Last })
}

func (e *streamHand) putImage(img statemachine.Image) uint32 {
	return e.images.add([]byte(model.FormatImage(&img)), func(id uint32) *imageFacts {
		same := img
		same.Epoch = 0
		return &imageFacts{img, e.pools.firstImages.first([]byte(model.FormatImage(&same)), id)}
	})
}

// restoreStream puts at hand the stream that begins a new life from a stored image.
func (e *streamHand) restoreStream(stored uint32) {
	image := e.images.at(stored).image
	s, err := e.maker.Restore(e.limits, &image)
	if err != nil {
		panic(err)
	}
	e.stream = s
}

// changed is the first half of Dirty of Stream.tla: the image of a stream differs from one in the store, in more
// than the epoch.
func (e *streamHand) changed(stream, stored uint32) bool {
	return e.images.at(e.streams.at(stream).image).plain != e.images.at(stored).plain
}
