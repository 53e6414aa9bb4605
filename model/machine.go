package model

import "github.com/tidemark/tidemark/statemachine"

// Machine is an implementation of Stream.tla: one stream, with a method for each action, named and meant as the
// methods of [statemachine.Stream], which is one. The gate calls an action only when the specification says that it is
// possible, so a machine may answer the others as it likes. One goroutine at a time uses it.
type Machine interface {
	Anchor(id uint64)
	Lost(first uint64) []statemachine.Range
	Rebase(first uint64)
	Receive(b statemachine.Batch) statemachine.Reply
	Skip(id uint64)
	Emit(n int) []statemachine.Batch // valid until Settle or Rollback
	Settle(n int)
	Rollback(checkpoint uint64)
	Resume()
	Snapshot(checkpoint uint64)
	Image(img *statemachine.Image) // what a checkpoint stores now; it changes nothing
	Dirty() bool                   // the image differs from that of the last completed checkpoint, or the one restored
	Complete(checkpoint uint64)
	Abort(checkpoint uint64)
	Commit(id uint64) (reply statemachine.Reply, watermark uint64)
}

// Exact is a machine that shows all of its state, as the specification has it. The gate compares it after each action.
type Exact interface {
	Machine
	State(st *statemachine.State)
}

// Guarded is a machine that tells by itself which actions are possible. The gate compares that too, and calls those
// that are not: they must panic and change nothing.
type Guarded interface {
	Machine
	CanAnchor() bool
	CanSkip(id uint64) bool
	CanEmit(n int) bool
	CanSettle(n int) bool
	CanRollback(checkpoint uint64) bool
	CanResume() bool
	CanSnapshot(checkpoint uint64) bool
}

// differential is a machine that can store an image as the difference from that of the last completed checkpoint.
type differential interface {
	AppendDelta(dst []byte) []byte
}

// maker makes machines of one implementation.
type maker struct {
	// fresh makes a stream nobody has sent to, and born is its epoch: 1 when it comes from an empty image.
	fresh   func(*statemachine.Limits) (Machine, error)
	born    uint64
	restore func(*statemachine.Limits, *statemachine.Image) (Machine, error)
	load    func(*statemachine.Limits, *statemachine.State) (Exact, error) // nil: the machine can't be put into any state
}

// makerOf makes machines by restore alone: a stream nobody has sent to is the one restored from the empty image.
func makerOf[M Machine](restore func(*statemachine.Limits, *statemachine.Image) (M, error)) maker {
	begin := func(limits *statemachine.Limits, img *statemachine.Image) (Machine, error) {
		return restore(limits, img)
	}
	return maker{
		fresh:   func(limits *statemachine.Limits) (Machine, error) { return begin(limits, new(statemachine.Image)) },
		born:    1,
		restore: begin,
	}
}

// exactMaker is makerOf, with a machine that can be put into any state.
func exactMaker[M Exact](restore func(*statemachine.Limits, *statemachine.Image) (M, error),
	load func(*statemachine.Limits, *statemachine.State) (M, error)) maker {
	mk := makerOf(restore)
	mk.load = func(limits *statemachine.Limits, st *statemachine.State) (Exact, error) { return load(limits, st) }
	return mk
}

// shipped is package statemachine.
func shipped() maker {
	mk := exactMaker(statemachine.Restore, statemachine.Load)
	mk.fresh = func(limits *statemachine.Limits) (Machine, error) { return statemachine.New(limits), nil }
	mk.born = 0
	return mk
}
