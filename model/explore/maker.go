package explore

import "github.com/tidemark/tidemark/statemachine"

// StreamMaker makes the streams to explore.
type StreamMaker interface {
	New(*statemachine.Limits) Stream                                   // Fresh of Stream.tla
	Restore(*statemachine.Limits, *statemachine.Image) (Stream, error) // Restore of Stream.tla
}

// Maker makes the streams and sessions to explore in the world of System.tla. [Shipped] is that of package
// statemachine; a test of the explorer gives another one.
type Maker interface {
	StreamMaker
	Connect() Session // a connection just opened
}

// Stream is what a world asks of a stream. The methods are those of
// [statemachine.Stream]. All but CopyFrom and the actions only read, so that goroutines may share a
// stream; State, Image and Sound are called by its owner alone.
type Stream interface {
	// CopyFrom makes the stream a deep copy of another one of the same maker.
	CopyFrom(Stream)
	// AppendKey is statemachine.Stream.AppendKey: equal keys must mean equal behaviour.
	AppendKey(dst []byte) (key []byte, stored int)
	State(*statemachine.State)
	Image(*statemachine.Image)
	Sound() error
	Dirty() bool
	ReceiveReply(id, digest uint64) statemachine.Reply
	Last() uint64

	CanAnchor() bool
	Anchor(id uint64)
	CanEmit(n int) bool
	Emit(n int) []statemachine.Batch
	Settle(n int)
	CanRollback(c uint64) bool
	Rollback(c uint64)
	CanResume() bool
	Resume()
	CanSnapshot(c uint64) bool
	Snapshot(c uint64)
	Complete(c uint64)
	Abort(c uint64)
}

// Session is what the world asks of a connection; the methods are those of [statemachine.Session]. All
// it remembers must be in its State.
type Session interface {
	CopyFrom(Session)
	State(*statemachine.SessionState)
	Receive(Stream, statemachine.Batch) statemachine.Reply
	Refuse(id uint64)
	Commit(Stream, uint64) (statemachine.Reply, uint64)
}

// Shipped is the machine of package statemachine.
type Shipped struct{}

// New is [statemachine.New].
func (Shipped) New(limits *statemachine.Limits) Stream {
	return ShippedStream{statemachine.New(limits)}
}

// Restore is [statemachine.Restore].
func (Shipped) Restore(limits *statemachine.Limits, img *statemachine.Image) (Stream, error) {
	s, err := statemachine.Restore(limits, img)
	return ShippedStream{s}, err
}

// Connect is the zero [statemachine.Session].
func (Shipped) Connect() Session { return ShippedSession{new(statemachine.Session)} }

// ShippedStream is a [statemachine.Stream]; a machine that differs in a method or two embeds it.
type ShippedStream struct{ *statemachine.Stream }

// ShippedSession is a [statemachine.Session], for streams that are or embed a [ShippedStream].
type ShippedSession struct{ *statemachine.Session }

// Core is the stream itself.
func (s ShippedStream) Core() *statemachine.Stream { return s.Stream }

func core(s Stream) *statemachine.Stream {
	return s.(interface{ Core() *statemachine.Stream }).Core()
}

// CopyFrom is [statemachine.Stream.CopyFrom].
func (s ShippedStream) CopyFrom(o Stream) { s.Stream.CopyFrom(core(o)) }

// CopyFrom is [statemachine.Session.CopyFrom].
func (c ShippedSession) CopyFrom(o Session) {
	c.Session.CopyFrom(o.(interface{ Core() *statemachine.Session }).Core())
}

// Core is the session itself.
func (c ShippedSession) Core() *statemachine.Session { return c.Session }

// Receive is [statemachine.Session.Receive].
func (c ShippedSession) Receive(s Stream, b statemachine.Batch) statemachine.Reply {
	return c.Session.Receive(core(s), b)
}

// Commit is [statemachine.Session.Commit].
func (c ShippedSession) Commit(s Stream, id uint64) (statemachine.Reply, uint64) {
	return c.Session.Commit(core(s), id)
}
