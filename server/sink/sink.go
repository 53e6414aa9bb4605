package sink

import (
	"context"

	"github.com/tidemark/tidemark/statemachine"
)

// Delivery is batches of one collector, in order. Their payloads are records as package protocol
// writes them (protocol.Records); they are valid until Write returns.
type Delivery struct {
	Collector string
	Batches   []statemachine.Batch
}

// Traits say what a host must know of a sink before it uses it.
type Traits struct {
	// ExactlyOnce: what was written and not committed is undone by Recover. Without it a crash can
	// deliver batches twice.
	ExactlyOnce bool
	// Lines: a record must not hold LF; the ingress refuses such a record.
	Lines bool
}

// Sink is where batches go. Its methods are called by one goroutine, except that a Txn may commit
// while the next one is being written.
type Sink interface {
	Traits() Traits
	// Recover comes first: it brings the sink back to the position of the last checkpoint, nil when
	// there is none, and makes that durable before it returns. It must refuse a state it can't
	// explain, rather than guess.
	Recover(ctx context.Context, position []byte) error
	// Begin opens the transaction that deliveries go to until the next barrier. Any error ends the
	// server, so a sink that has to reach something does that in Write and Commit.
	Begin(ctx context.Context) (Txn, error)
	// Close releases the sink. What is not committed is for the next Recover.
	Close() error
}

// Txn is what the sink takes between two barriers. The order of calls is Write…, Seal, Commit; Commit
// may run while the next Txn is written. Transactions commit in the order they were begun.
type Txn interface {
	// Write takes the first n batches, each whole or not at all, in order; n is len(d.Batches)
	// exactly when err is nil. Of the rest nothing remains. An error that wraps ErrTransient is
	// tried again for as long as it takes, a *Refused counts as a failed delivery of that stream
	// and can halt it, any other error ends the server.
	Write(ctx context.Context, d Delivery) (n int, err error)
	// Seal is the barrier: no Write follows. It returns the position after the last batch taken,
	// which the next Recover gets when this checkpoint was the last to complete. It does no disk I/O.
	// An error ends the server.
	Seal() ([]byte, error)
	// Commit makes everything written durable. An error that wraps ErrTransient means that nothing
	// changed and Commit may be called again; any other error ends the server, and the store tells
	// the next life.
	Commit(ctx context.Context) error
}
