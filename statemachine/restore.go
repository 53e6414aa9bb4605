package statemachine

import "fmt"

// Restore begins a new epoch from a stored image. What no longer fits the queue becomes missing: the
// collector sends it again. The error says what in the image is not Sound. The payload slices of the
// image belong to the stream from then on.
func Restore(limits *Limits, img *Image) (*Stream, error) {
	if err := img.check(); err != nil {
		return nil, err
	}
	s := New(limits)
	s.epoch, s.anchored = img.Epoch+1, img.Anchored
	s.committed, s.received = img.Watermark, img.Received
	s.missing = append(s.missing, img.Missing...)
	fits := img.Queue[:min(len(img.Queue), limits.QueueCapacity)]
	for _, b := range fits {
		s.hold(b)
	}
	for _, b := range img.Queue[len(fits):] {
		s.missing.add(b.ID, b.ID)
	}
	for _, d := range img.Digests {
		s.digests.set(d.ID, d.Sum)
	}
	s.stored = position{version: s.position().version}
	if s.differs(img, len(fits)) {
		s.changes++
	}
	return s, nil
}

// differs tells whether the image of a stream just restored is another than the one it came from.
func (s *Stream) differs(img *Image, fits int) bool {
	return len(img.Queue) > fits || len(img.Queue) > 0 && !s.limits.KeepPayloads ||
		len(img.Digests) > 0 && img.Digests[0].ID <= s.forgotten(img.Watermark)
}

// check tells whether a stream could have left this image behind.
func (img *Image) check() error {
	if img.Watermark > img.Received || img.Received > MaxNumber {
		return fmt.Errorf("image: watermark %d, received %d, allowed are rising numbers up to %d",
			img.Watermark, img.Received, uint64(MaxNumber))
	}
	unfinished := append(ranges(nil), img.Missing...)
	if !unfinished.canonical(img.Watermark+1, img.Received) {
		return fmt.Errorf("image: missing %v, allowed are sorted ranges within %d to %d",
			img.Missing, img.Watermark+1, img.Received)
	}
	for _, b := range img.Queue {
		if b.ID <= img.Watermark || b.ID > img.Received || unfinished.contains(b.ID) {
			return fmt.Errorf("image: batch %d in the queue, allowed are other numbers than the unfinished ones within %d to %d",
				b.ID, img.Watermark+1, img.Received)
		}
		if b.Records < 1 {
			return fmt.Errorf("image: batch %d has %d records, allowed is at least 1", b.ID, b.Records)
		}
		unfinished.add(b.ID, b.ID)
	}
	lowest := img.Received + 1
	if len(unfinished) > 0 {
		lowest = unfinished[0].First
	}
	if img.Watermark+1 != lowest {
		return fmt.Errorf("image: watermark %d of %d received, allowed is one below the lowest unfinished number, %d",
			img.Watermark, img.Received, lowest)
	}
	for i, d := range img.Digests {
		if d.ID < 1 || d.ID > img.Received || i > 0 && d.ID <= img.Digests[i-1].ID {
			return fmt.Errorf("image: digest of %d, allowed are rising numbers within 1 to %d", d.ID, img.Received)
		}
	}
	if !img.Anchored && img.Received > 0 {
		return fmt.Errorf("image: received %d before the first number is known", img.Received)
	}
	return nil
}
