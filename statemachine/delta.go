package statemachine

import "encoding/binary"

// A delta is what turns one image of a stream into a later one. Its bytes, all numbers as uvarints:
//
//	format, flags (1: whole, it starts from an empty image; 2: anchored)
//	epoch, watermark, received
//	forgotten: digests up to and including this number are dropped
//	digest runs: count (0 ends the list), first number, then count sums of 8 bytes, little-endian
//	missing: count, then for each range the gap to the one before and its length less one
//	queue: how many batches are dropped from the front, how many are added, then for each
//	number, digest (8 bytes), records, length and bytes of the payload
const deltaFormat = 1

const (
	deltaWhole    = 1
	deltaAnchored = 2
)

// AppendDelta appends the image a checkpoint stores now, as the difference from the image of the
// last completed checkpoint; the first one of a life is whole. It is called where Image would be, in
// the same instant as Snapshot. Its size grows with what changed, not with the history.
//
// [Image.Apply] is its inverse: old.Apply(delta) makes the image of the completed checkpoint into
// what Image gives now.
func (s *Stream) AppendDelta(dst []byte) []byte {
	watermark := s.Watermark()
	fresh := s.held.len() // how many of held the old image has not seen
	flags := uint64(deltaWhole)
	if s.stored.known {
		flags = 0
		fresh = int(s.dropped + uint64(s.held.len()) - s.stored.accepted)
	}
	if s.anchored {
		flags |= deltaAnchored
	}
	dst = appendUvarints(dst, deltaFormat, flags, s.epoch, watermark, s.received, s.forgotten(watermark))
	if s.stored.known {
		dst = appendRuns(dst, s.held.live()[s.held.len()-fresh:], Batch.digest)
	} else {
		dst = s.digests.appendRuns(dst, s.forgotten(watermark))
	}
	dst = appendRanges(dst, s.unkept())
	return s.appendQueue(dst, fresh)
}

// appendQueue says how the undelivered batches differ from those of the old image, in which the
// batches from stored.delivered to stored.accepted were waiting.
func (s *Stream) appendQueue(dst []byte, fresh int) []byte {
	if !s.limits.KeepPayloads {
		return append(dst, 0, 0)
	}
	dropped, added := uint64(0), s.undelivered()
	if s.stored.known {
		delivered := s.dropped + uint64(s.settled)
		dropped = min(delivered, s.stored.accepted) - s.stored.delivered
		added = added[max(0, len(added)-fresh):]
	}
	return appendBatches(binary.AppendUvarint(dst, dropped), added)
}

// AppendWhole appends the delta that makes any image into this one.
func (img *Image) AppendWhole(dst []byte) []byte {
	flags := uint64(deltaWhole)
	if img.Anchored {
		flags |= deltaAnchored
	}
	dst = appendUvarints(dst, deltaFormat, flags, img.Epoch, img.Watermark, img.Received, 0)
	dst = appendRuns(dst, img.Digests, Digest.digest)
	dst = appendRanges(dst, img.Missing)
	return appendBatches(append(dst, 0), img.Queue)
}

func appendUvarints(dst []byte, numbers ...uint64) []byte {
	for _, v := range numbers {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func (b Batch) digest() Digest  { return Digest{b.ID, b.Digest} }
func (d Digest) digest() Digest { return d }

// appendRuns writes the digests of a list as runs of rising numbers.
func appendRuns[T any](dst []byte, list []T, digest func(T) Digest) []byte {
	for len(list) > 0 {
		first := digest(list[0])
		n := 1
		for n < len(list) && digest(list[n]).ID == first.ID+uint64(n) {
			n++
		}
		dst = appendUvarints(dst, uint64(n), first.ID)
		for _, x := range list[:n] {
			dst = binary.LittleEndian.AppendUint64(dst, digest(x).Sum)
		}
		list = list[n:]
	}
	return append(dst, 0)
}

func appendBatches(dst []byte, batches []Batch) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(batches)))
	for _, b := range batches {
		dst = binary.AppendUvarint(dst, b.ID)
		dst = binary.LittleEndian.AppendUint64(dst, b.Digest)
		dst = appendUvarints(dst, uint64(b.Records), uint64(len(b.Payload)))
		dst = append(dst, b.Payload...)
	}
	return dst
}

// appendRuns writes every digest above low.
func (d *digests) appendRuns(dst []byte, low uint64) []byte {
	sums := d.sums.live()
	for _, s := range d.spans.live() {
		first := max(s.first, low+1)
		if first > s.last {
			continue
		}
		dst = appendUvarints(dst, s.last-first+1, first)
		at := s.at - d.gone + first - s.first
		for _, sum := range sums[at : at+s.last-first+1] {
			dst = binary.LittleEndian.AppendUint64(dst, sum)
		}
	}
	return append(dst, 0)
}

func appendRanges(dst []byte, list ranges) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	before := uint64(0)
	for _, r := range list {
		dst = appendUvarints(dst, r.First-before, r.Last-r.First)
		before = r.Last
	}
	return dst
}
