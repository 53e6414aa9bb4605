package statemachine

import "encoding/binary"

// CopyFrom makes s a deep copy of o, limits included; only payloads are shared. It reuses the slices
// of s and allocates nothing once they are long enough, so that a search can try a step on a copy. The
// zero Stream may be copied to. What Emit lent out of s before is no longer valid.
func (s *Stream) CopyFrom(o *Stream) {
	held, emitted, missing, scratch, digests, marks := s.held, s.emitted, s.missing, s.scratch, s.digests, s.marks
	*s = *o
	s.held = held.copyOf(&o.held)
	s.emitted = append(emitted[:0], o.emitted...)
	s.missing = append(missing[:0], o.missing...)
	s.scratch = scratch
	s.digests.spans = digests.spans.copyOf(&o.digests.spans)
	s.digests.sums = digests.sums.copyOf(&o.digests.sums)
	s.marks = append(marks[:0], o.marks...)
}

// copyOf is what o holds, in the room that f has.
func (f *fifo[T]) copyOf(o *fifo[T]) fifo[T] { return fifo[T]{buf: append(f.buf[:0], o.live()...)} }

// AppendKey appends bytes that are equal for two streams with the same limits if and only if they are
// in the same state and do the same from then on. Payloads count by their length, for the digest speaks
// for what is in them; checkpoint numbers by their distance from Last, so that streams which differ only
// in how many numbers they used have equal keys. What [Stream.AppendDelta] starts from is not in the key.
//
// The bytes from stored on say what [Stream.Dirty] compares with: how the image of the last completed
// checkpoint differs from that of now. Once a later image is in the store and only Complete can follow,
// they are of no matter.
func (s *Stream) AppendKey(dst []byte) (key []byte, stored int) {
	flags := uint64(0)
	for bit, set := range [...]bool{s.anchored, s.halted, s.last > 0} {
		if set {
			flags |= 1 << bit
		}
	}
	held := s.held.live()
	for _, v := range [...]uint64{
		flags, s.epoch, s.committed, s.received, uint64(s.nacks),
		uint64(s.settled), uint64(s.inflight), uint64(len(held)),
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	for i := range held {
		dst = binary.AppendUvarint(dst, held[i].ID)
		dst = binary.AppendUvarint(dst, held[i].Digest)
		dst = binary.AppendUvarint(dst, uint64(held[i].Records))
		dst = binary.AppendUvarint(dst, uint64(len(held[i].Payload)))
	}
	dst = appendRanges(dst, s.missing)
	dst = s.digests.appendKey(dst)
	dst = binary.AppendUvarint(dst, uint64(len(s.marks)))
	for i := range s.marks {
		m := &s.marks[i]
		dst = binary.AppendUvarint(dst, s.last-m.Checkpoint)
		dst = binary.AppendUvarint(dst, m.Watermark)
		dst = binary.AppendUvarint(dst, uint64(m.Settled))
		dst = s.appendDistance(dst, m.image.version)
	}
	stored = len(dst)
	return s.appendDistance(dst, s.stored.version), stored
}

func (d *digests) appendKey(dst []byte) []byte {
	spans := d.spans.live()
	dst = binary.AppendUvarint(dst, uint64(len(spans)))
	for _, s := range spans {
		dst = binary.AppendUvarint(dst, s.first)
		dst = binary.AppendUvarint(dst, s.last)
	}
	for _, sum := range d.sums.live() {
		dst = binary.AppendUvarint(dst, sum)
	}
	return dst
}

// appendDistance says how a version lies to that of now. One with other changes never becomes equal to
// it again; one that differs in what was delivered may, after a rollback.
func (s *Stream) appendDistance(dst []byte, v version) []byte {
	now := s.position().version
	if v.changes != now.changes {
		return append(dst, 0)
	}
	return binary.AppendVarint(append(dst, 1), int64(now.delivered-v.delivered))
}

// SessionState is all that a [Session] remembers, by the names of System.tla, for searches, scripts and
// status pages.
type SessionState struct {
	Named   uint64  // highest number accepted on this connection
	Told    uint64  // highest watermark it was told
	Refused []Range // numbers it was refused, not accepted since
}

// State copies what the session remembers into st, reusing its slice.
func (c *Session) State(st *SessionState) {
	*st = SessionState{Named: c.named, Told: c.told, Refused: append(st.Refused[:0], c.refused...)}
}

// CopyFrom makes c a deep copy of o and reuses the slice of c.
func (c *Session) CopyFrom(o *Session) {
	*c = Session{named: o.named, told: o.told, refused: append(c.refused[:0], o.refused...)}
}
