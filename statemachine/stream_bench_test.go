package statemachine

import "testing"

func benchmarkLimits(keep bool) *Limits {
	limits := DefaultLimits()
	limits.KeepPayloads = keep
	return &limits
}

// BenchmarkBatch is the straight path of one batch through the machine, with a checkpoint every 64.
func BenchmarkBatch(b *testing.B) {
	for name, keep := range map[string]bool{"light": false, "full": true} {
		b.Run(name, func(b *testing.B) {
			s := New(benchmarkLimits(keep))
			s.Anchor(1)
			payload := make([]byte, 256)
			b.ReportAllocs()
			for id := uint64(1); b.Loop(); id++ {
				s.Receive(Batch{ID: id, Digest: id, Records: 1, Payload: payload})
				s.Emit(1)
				s.Settle(1)
				if id%64 == 0 {
					s.Snapshot(id)
					s.Complete(id)
				}
				s.Commit(id)
			}
		})
	}
}

// BenchmarkSession is the same through a connection, delivered 64 at a time, as a busy host does it,
// with the image written as a delta.
func BenchmarkSession(b *testing.B) {
	s := New(benchmarkLimits(false))
	s.Anchor(1)
	var conn Session
	payload, delta := make([]byte, 256), []byte(nil)
	b.ReportAllocs()
	for id := uint64(1); b.Loop(); id++ {
		conn.Receive(s, Batch{ID: id, Digest: id, Records: 1, Payload: payload})
		if id%64 == 0 {
			s.Emit(64)
			s.Settle(64)
			s.Snapshot(id)
			delta = s.AppendDelta(delta[:0])
			s.Complete(id)
			conn.Commit(s, id)
		}
	}
}
