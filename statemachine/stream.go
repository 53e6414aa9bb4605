package statemachine

import "fmt"

// Stream is one collector's sequence of batches inside the ingress: the record s of Stream.tla with
// one method for each of its operators. It is pure: no clock, no goroutine, no I/O. One goroutine
// at a time may use it. An action whose Can… method says false panics: that is a fault of the host,
// never of what a collector sent.
type Stream struct {
	limits *Limits

	epoch, committed, received uint64
	anchored, halted           bool
	nacks                      int

	// held is settled, inflight and queue in this order, which is the order of acceptance: emitting,
	// settling and rolling back only move the two borders.
	held              fifo[Batch]
	settled, inflight int
	bytes             int64
	descents          int     // neighbours in held with falling numbers; none: the first is the lowest
	emitted           []Batch // what Emit lent out

	missing ranges
	scratch ranges // lent out by unkept
	digests digests
	marks   []mark
	last    uint64

	dropped uint64   // batches that left held: held[i] is the (dropped+i)-th accepted in this life
	changes uint64   // steps that changed the image other than by delivery
	stored  position // of the image of the last completed checkpoint, or the one restored
}

// version names a state of the image within one life; equal versions, equal images.
type version struct {
	changes   uint64
	delivered uint64 // batches that left the queue for good, or until a rollback
}

// position is a version and how many batches had been accepted by then: what a delta starts from.
// One that is not known, of an image from before this life, is no start: then a delta is whole.
type position struct {
	version
	accepted uint64
	known    bool
}

type mark struct {
	Mark
	image position
}

// New is a stream nobody has sent to yet: Fresh. It panics on limits that Stream.tla does not assume.
func New(limits *Limits) *Stream {
	if err := limits.assume(); err != nil {
		panic("statemachine: " + err.Error())
	}
	return &Stream{limits: limits}
}

// Load makes a stream in any state, for replay and scripts. The error says what is not Sound.
func Load(limits *Limits, st *State) (*Stream, error) {
	s := New(limits)
	s.epoch, s.anchored, s.committed, s.received = st.Epoch, st.Anchored, st.Committed, st.Received
	s.nacks, s.halted, s.last = st.Nacks, st.Halted, st.Last
	for _, part := range [][]Batch{st.Settled, st.Inflight, st.Queue} {
		for _, b := range part {
			s.hold(b)
		}
	}
	s.settled, s.inflight = len(st.Settled), len(st.Inflight)
	s.emitted = append(s.emitted, st.Inflight...)
	s.missing = append(s.missing, st.Missing...)
	for _, d := range st.Digests {
		s.digests.set(d.ID, d.Sum)
	}
	for _, m := range st.Checkpoints {
		s.marks = append(s.marks, mark{Mark: m})
	}
	s.changes = 1 // what is stored is another image than this
	return s, s.Sound()
}

// State copies the stream into st, reusing its slices.
func (s *Stream) State(st *State) {
	held := s.held.live()
	*st = State{
		Epoch: s.epoch, Anchored: s.anchored, Committed: s.committed, Received: s.received,
		Settled:     append(st.Settled[:0], held[:s.settled]...),
		Inflight:    append(st.Inflight[:0], held[s.settled:s.settled+s.inflight]...),
		Queue:       append(st.Queue[:0], held[s.settled+s.inflight:]...),
		Missing:     append(st.Missing[:0], s.missing...),
		Digests:     s.digests.appendTo(st.Digests[:0], 0),
		Checkpoints: st.Checkpoints[:0],
		Last:        s.last, Nacks: s.nacks, Halted: s.halted,
	}
	for _, m := range s.marks {
		st.Checkpoints = append(st.Checkpoints, m.Mark)
	}
}

// Epoch is how many restarts the stream survived. It is for people: two crashes before a checkpoint
// give the same one.
func (s *Stream) Epoch() uint64 { return s.epoch }

// Anchored tells whether the collector's first number is known.
func (s *Stream) Anchored() bool { return s.anchored }

// Committed is the watermark of the last completed checkpoint: what may be acknowledged. It never falls.
func (s *Stream) Committed() uint64 { return s.committed }

// Received is the highest number accepted.
func (s *Stream) Received() uint64 { return s.received }

// Last is the highest checkpoint number used in this life.
func (s *Stream) Last() uint64 { return s.last }

// Halted tells whether the stream gave up on its sink; [Stream.Resume] gives it another chance.
func (s *Stream) Halted() bool { return s.halted }

// Nacks is how many deliveries failed in a row.
func (s *Stream) Nacks() int { return s.nacks }

// Held is how many batches the stream holds, and their payload bytes, settled ones included: the
// sink may lose what it took until a checkpoint completes.
func (s *Stream) Held() (batches int, bytes int64) { return s.held.len(), s.bytes }

// Queued is how many batches wait to be emitted.
func (s *Stream) Queued() int { return s.held.len() - s.settled - s.inflight }

// Missing is the numbers whose payload is not here: the collector must send them. The slice is the
// stream's own and valid until its next action.
func (s *Stream) Missing() []Range { return s.missing }

// Full tells whether there is no room for another batch.
func (s *Stream) Full() bool {
	return s.held.len() >= s.limits.QueueCapacity ||
		s.limits.QueueBytes > 0 && s.bytes >= s.limits.QueueBytes
}

// Watermark is the highest number at or below which everything has been delivered to the sink: one
// less than the lowest unfinished number, or Received when nothing is unfinished.
func (s *Stream) Watermark() uint64 {
	low, any := uint64(0), false
	if len(s.missing) > 0 {
		low, any = s.missing[0].First, true
	}
	for _, b := range s.undelivered() {
		if !any || b.ID < low {
			low, any = b.ID, true
		}
		if s.descents == 0 {
			break
		}
	}
	if !any {
		return s.received
	}
	return low - 1
}

// Trim gives back memory that the stream has room for and does not use, for a host whose collector rests. Nothing else
// changes.
func (s *Stream) Trim() {
	s.held.trim()
	s.digests.sums.trim()
	s.digests.spans.trim()
	if s.inflight == 0 {
		s.emitted = nil
	}
	s.scratch = nil
}

// undelivered is inflight and queue.
func (s *Stream) undelivered() []Batch { return s.held.live()[s.settled:] }

func (s *Stream) hold(b Batch) {
	if q := s.held.live(); len(q) > 0 && q[len(q)-1].ID > b.ID {
		s.descents++
	}
	s.held.push(b)
	s.bytes += int64(len(b.Payload))
}

// release drops the first n settled batches, which a completed checkpoint covers.
func (s *Stream) release(n int) {
	q := s.held.live()
	for i := range q[:n] {
		s.bytes -= int64(len(q[i].Payload))
		if i+1 < len(q) && q[i].ID > q[i+1].ID {
			s.descents--
		}
	}
	s.held.drop(n)
	s.settled -= n
	s.dropped += uint64(n)
}

// position is that of the image as it is now.
func (s *Stream) position() position {
	delivered := s.dropped + uint64(s.settled)
	return position{version{s.changes, delivered}, s.dropped + uint64(s.held.len()), true}
}

// must panics when a host takes an action that is not possible: a broken invariant, not bad input.
func must(can bool, action string, arg uint64) {
	if !can {
		panic(fmt.Sprintf("statemachine: %s(%d) is not possible in this state", action, arg))
	}
}
