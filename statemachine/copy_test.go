package statemachine

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCopyFrom: a copy is in the same state and lives a life of its own, and equal keys mean equal streams.
func TestCopyFrom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &walk{limits: drawLimits(t)}
		w.stream = New(&w.limits)
		w.stream.Anchor(1)
		w.stream.Image(&w.stored)
		var twin Stream // copied to again and again, so that its slices are reused
		var kept frozen
		seen := map[string]frozen{}
		actions := w.deliver()
		actions["Receive"], actions["ReceiveMore"] = w.receive, w.receive
		actions["Snapshot"], actions["Complete"] = w.snapshot, w.complete
		actions["Abort"] = func(*rapid.T) { w.stream.Abort(w.number); w.saving = nil }
		actions[""] = func(t *rapid.T) {
			if twin.limits != nil {
				require.Equal(t, kept, freeze(&twin), "an action on the stream changed its copy")
			}
			twin.CopyFrom(w.stream)
			kept = freeze(&twin)
			require.Equal(t, freeze(w.stream), kept)
			require.NoError(t, soundWithin(&walk{limits: w.limits, stream: &twin}))
			if old, known := seen[kept.key]; known {
				require.Equal(t, old, kept, "equal keys")
			}
			seen[kept.key] = kept
		}
		t.Repeat(actions)
	})
}

// frozen is all that can be seen of a stream; checkpoint numbers by their distance from the last.
type frozen struct {
	key   string
	state State
	image Image
	dirty bool
}

func freeze(s *Stream) frozen {
	f := frozen{dirty: s.Dirty()}
	key, stored := s.AppendKey([]byte("front"))
	f.key = string(key[len("front"):])
	if string(key[:5]) != "front" || stored <= 5 || stored >= len(key) {
		panic("AppendKey does not append, or says nothing of the stored image")
	}
	s.State(&f.state)
	for i := range f.state.Checkpoints {
		f.state.Checkpoints[i].Checkpoint = s.last - f.state.Checkpoints[i].Checkpoint
	}
	f.state.Last = min(f.state.Last, 1)
	s.Image(&f.image)
	f.state, f.image = plainState(f.state), plainImage(f.image)
	return f
}

func plainState(st State) State {
	st.Queue, st.Inflight, st.Settled = append([]Batch{}, st.Queue...), append([]Batch{}, st.Inflight...), append([]Batch{}, st.Settled...)
	st.Missing, st.Digests, st.Checkpoints = append([]Range{}, st.Missing...), append([]Digest{}, st.Digests...), append([]Mark{}, st.Checkpoints...)
	return st
}

// lived is a stream that delivered batch 1 under checkpoint c and holds batch 2.
func lived(limits *Limits, c uint64) *Stream {
	s := New(limits)
	s.Anchor(1)
	s.Receive(Batch{ID: 1, Digest: 7, Records: 1})
	s.Emit(1)
	s.Settle(1)
	s.Snapshot(c)
	s.Receive(Batch{ID: 2, Digest: 8, Records: 1})
	return s
}

// TestAppendKey: numbers of checkpoints do not matter, all else does.
func TestAppendKey(t *testing.T) {
	limits := DefaultLimits()
	key := func(s *Stream) string { key, _ := s.AppendKey(nil); return string(key) }
	require.Equal(t, key(lived(&limits, 1)), key(lived(&limits, 9)))
	changes := map[string]func(*Stream){
		"receive":         func(s *Stream) { s.Receive(Batch{ID: 3, Digest: 9, Records: 1}) },
		"receive a gap":   func(s *Stream) { s.Receive(Batch{ID: 4, Digest: 9, Records: 1}) },
		"other digest":    func(s *Stream) { s.Receive(Batch{ID: 3, Digest: 10, Records: 1}) },
		"more records":    func(s *Stream) { s.Receive(Batch{ID: 3, Digest: 9, Records: 2}) },
		"with payload":    func(s *Stream) { s.Receive(Batch{ID: 3, Digest: 9, Records: 1, Payload: []byte{1}}) },
		"emit":            func(s *Stream) { s.Emit(1) },
		"settle":          func(s *Stream) { s.Emit(1); s.Settle(1) },
		"fail":            func(s *Stream) { s.Emit(1); s.Settle(0) },
		"halt":            func(s *Stream) { s.halted = true },
		"rollback":        func(s *Stream) { s.Rollback(0) },
		"snapshot":        func(s *Stream) { s.Snapshot(s.Last() + 1) },
		"skip a number":   func(s *Stream) { s.Snapshot(s.Last() + 2) },
		"complete":        func(s *Stream) { s.Complete(s.Last()) },
		"abort":           func(s *Stream) { s.Abort(s.Last()) },
		"complete, abort": func(s *Stream) { s.Complete(s.Last()); s.Snapshot(s.Last() + 1); s.Abort(s.Last()) },
	}
	seen := map[string]string{key(lived(&limits, 1)): "nothing"}
	for name, change := range changes {
		s := lived(&limits, 1)
		change(s)
		other, known := seen[key(s)]
		if name == "complete, abort" || name == "complete" { // a number used and given up leaves no trace
			require.True(t, !known || other == "complete" || other == "complete, abort")
		} else {
			require.False(t, known, "%s has the key of %s", name, other)
		}
		seen[key(s)] = name
	}
	require.Len(t, seen, len(changes), "of two changes the keys are equal, of all others they differ")
}

// TestCopyAllocates nothing, once its slices are long enough.
func TestCopyAllocates(t *testing.T) {
	limits := DefaultLimits()
	from, to := lived(&limits, 1), new(Stream)
	from.Receive(Batch{ID: 5, Digest: 9, Records: 1})
	var session, other Session
	session.Refuse(3)
	var key []byte
	var st SessionState
	require.Zero(t, testing.AllocsPerRun(100, func() {
		to.CopyFrom(from)
		key, _ = to.AppendKey(key[:0])
		other.CopyFrom(&session)
		other.State(&st)
	}))
}

// TestSessionState: a copy of a session remembers the same and lives a life of its own.
func TestSessionState(t *testing.T) {
	limits := DefaultLimits()
	s := lived(&limits, 1)
	s.Complete(1)
	var session, twin Session
	require.Equal(t, Received, session.Receive(s, Batch{ID: 1, Digest: 7, Records: 1}))
	reply, watermark := session.Commit(s, 1)
	require.Equal(t, Ack, reply)
	require.EqualValues(t, 1, watermark)
	session.Refuse(4)
	twin.CopyFrom(&session)
	session.Refuse(7)
	var st SessionState
	twin.State(&st)
	require.Equal(t, SessionState{Named: 1, Told: 1, Refused: []Range{{4, 4}}}, st)
	session.State(&st)
	require.Equal(t, []Range{{4, 4}, {7, 7}}, st.Refused)
}

// TestCopyKnowsFields: a new field has to be copied deeply, and to be in the key if it decides anything.
func TestCopyKnowsFields(t *testing.T) {
	for _, c := range []struct {
		of    any
		known string
	}{
		{Stream{}, "limits epoch committed received anchored halted nacks held settled inflight bytes descents emitted " +
			"missing scratch digests marks last dropped changes stored"},
		{Session{}, "named told refused"},
		{digests{}, "spans sums gone"},
		{mark{}, "Mark image"},
	} {
		var names []string
		for i := range reflect.TypeOf(c.of).NumField() {
			names = append(names, reflect.TypeOf(c.of).Field(i).Name)
		}
		require.Equal(t, strings.Fields(c.known), names, "look at CopyFrom and AppendKey of %T", c.of)
	}
}
