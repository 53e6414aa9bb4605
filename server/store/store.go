package store

import (
	"context"

	"github.com/tidemark/tidemark/statemachine"
)

// Change is what becomes durable of one stream: the bytes of statemachine.Stream.AppendDelta, relative
// to what the store holds of that stream, and its seat. In a checkpoint there is always a delta and
// never a seat.
type Change struct {
	Collector string
	Delta     []byte                  // empty: the image stays as it is
	Seat      *statemachine.SeatImage // nil: the seat stays as it is
}

// Checkpoint is what becomes durable in one step: the changed streams, and where the sink stood at
// the barrier.
type Checkpoint struct {
	Number   uint64 // rises by at least one with each, for the life of the store
	Changes  []Change
	Position []byte // the sink's own, from Txn.Seal; nil for a sink without one
}

// Stored is what a store holds: the last checkpoint, whole, and the last seat of each stream.
type Stored struct {
	Number   uint64 // 0: no checkpoint yet
	Position []byte // nil: no checkpoint yet, or a sink without a position
	Images   map[string]*statemachine.Image
	Seats    map[string]statemachine.SeatImage // of streams that have one; a stream may have no image yet
}

// Store keeps checkpoints. Load is called once, before all others; Anchor may be called by many
// goroutines at once and beside Save; Save by one goroutine at a time.
//
// An error that wraps ErrTransient means that nothing was stored and the same call may be made
// again. After any other error the store must not be used: what is on disk is known only to the next
// life that loads it.
type Store interface {
	// Load returns what the last completed Save and the Anchors left. What it returns is durable: it
	// survives a power cut that comes right after.
	Load(ctx context.Context) (*Stored, error)
	// Anchor makes the first image of a stream, or its seat, or both in one step durable, outside of
	// any checkpoint. When the store has an image of that stream already that image stays: a call
	// beside Save may come late. The seat always replaces the one before: of calls at the same time
	// the one that becomes durable last wins. An instance without 1 to MaxInstance bytes, or more than
	// statemachine.MaxRetired of them, is refused and nothing is stored.
	Anchor(ctx context.Context, change Change) error
	// Save makes a checkpoint durable, all of it or nothing. The sink has committed before. It is
	// refused when there is a seat in it.
	Save(ctx context.Context, c *Checkpoint) error
	// Close releases the store; it stores nothing.
	Close() error
}
