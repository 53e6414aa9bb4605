package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidemark/tidemark/statemachine"
)

// Status is what people may want to know of a stream.
type Status struct {
	Collector  string      `json:"collector"`
	Connected  bool        `json:"connected"`
	Instance   string      `json:"instance,omitempty"` // whose numbers these are; dialect 2
	Epoch      uint64      `json:"epoch"`
	Anchored   bool        `json:"anchored"`
	Committed  uint64      `json:"committed"` // what may be acknowledged
	Watermark  uint64      `json:"watermark"` // what is delivered to the sink
	Received   uint64      `json:"received"`
	Queue      int         `json:"queue"`      // batches waiting for the sink
	Held       int         `json:"held"`       // batches that no completed checkpoint covers
	HeldBytes  int64       `json:"held_bytes"` // their payload
	Missing    [][2]uint64 `json:"missing"`    // the collector must send these, both ends included
	LagBatches uint64      `json:"lag_batches"`
	LagSeconds float64     `json:"lag_seconds"` // since when the watermark has not moved, while batches wait
	Nacks      int         `json:"nacks"`
	Halted     bool        `json:"halted"`
	Waiting    string      `json:"waiting"` // why the watermark waits; empty: it does not
}

// Streams is the status of every stream, sorted by collector.
func (s *Server) Streams() []Status {
	s.mu.Lock()
	streams := slices.Collect(maps.Values(s.streams))
	s.mu.Unlock()
	now := time.Now()
	list := make([]Status, 0, len(streams))
	for _, st := range streams {
		list = append(list, s.status(st, now))
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Collector, b.Collector) })
	return list
}

func (s *Server) status(st *stream, now time.Time) Status {
	writing, err, sinkError := s.pipeline.progress.now()
	st.mu.Lock()
	defer st.mu.Unlock()
	m := st.machine
	held, bytes := m.Held()
	status := Status{
		Collector: st.name, Connected: len(st.taken) > 0, Instance: st.seat.Instance(), Epoch: m.Epoch(), Anchored: m.Anchored(),
		Committed: m.Committed(), Watermark: m.Watermark(), Received: m.Received(),
		Queue: m.Queued(), Held: held, HeldBytes: bytes, Missing: pairs(m.Missing()),
		LagBatches: m.Received() - m.Committed(), Nacks: m.Nacks(), Halted: m.Halted(),
	}
	if !st.behindSince.IsZero() {
		status.LagSeconds = now.Sub(st.behindSince).Seconds()
	}
	status.Waiting = st.reason(writing, err, sinkError)
	return status
}

// reason is why the watermark waits: what stands in its way first.
func (st *stream) reason(writing bool, checkpointError, sinkError error) string {
	m := st.machine
	missing := m.Missing()
	switch {
	case m.Committed() == m.Received():
		return ""
	case m.Halted():
		return fmt.Sprintf("halted: %v", st.sinkError)
	case sinkError != nil && m.Queued()+len(st.flying) > 0:
		return fmt.Sprintf("sink is retrying: %v", sinkError)
	case st.sinkError != nil && m.Queued() > 0:
		return fmt.Sprintf("sink refuses: %v", st.sinkError)
	case m.Watermark() > m.Committed() && checkpointError != nil:
		return fmt.Sprintf("checkpoint is retrying: %v", checkpointError)
	case m.Watermark() > m.Committed() && writing:
		return "checkpoint is being written"
	case m.Watermark() > m.Committed():
		return "the next checkpoint covers it"
	case len(missing) > 0 && missing[0].First == m.Watermark()+1:
		return "collector owes " + numbers(missing[0])
	default:
		return "in the queue"
	}
}

func numbers(r statemachine.Range) string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d to %d", r.First, r.Last)
}

// pairs are ranges as JSON shows them: [[first, last], ...].
func pairs(ranges []statemachine.Range) [][2]uint64 {
	list := make([][2]uint64, 0, len(ranges))
	for _, r := range ranges {
		list = append(list, [2]uint64{r.First, r.Last})
	}
	return list
}
