package statemachine

// MaxNumber is the highest batch number: 2^63-1, the most that every language's signed integer holds.
const MaxNumber = 1<<63 - 1

// Batch is n >= 1 records under one number, taken whole or not at all. The machine never reads or
// writes Payload and keeps the slice it is given until a completed checkpoint covers the batch.
type Batch struct {
	ID      uint64 // 1 to MaxNumber
	Digest  uint64 // of the decoded records: the body of the specification
	Records int
	Payload []byte
}

// Range is the numbers First to Last, both included. Lists of ranges are sorted and never adjacent.
type Range struct{ First, Last uint64 }

// Digest says what body was accepted under a number.
type Digest struct{ ID, Sum uint64 }

// Mark is an open checkpoint: the watermark it froze and how many settled batches it covers.
type Mark struct {
	Checkpoint, Watermark uint64
	Settled               int
}

// State is the record of Stream.tla, field by field, for replay, scripts and status pages. Its
// slices are its own.
type State struct {
	Epoch       uint64  // restarts survived
	Anchored    bool    // the collector's first number is known, and stored
	Committed   uint64  // watermark of the last completed checkpoint
	Received    uint64  // highest batch accepted
	Queue       []Batch // accepted, waiting to be emitted
	Inflight    []Batch // emitted to the sink, outcome unknown
	Settled     []Batch // the sink took them, no completed checkpoint covers them yet
	Missing     []Range // accepted or skipped, and the payload is not here
	Digests     []Digest
	Checkpoints []Mark // open checkpoints, oldest first
	Last        uint64 // highest checkpoint number used in this life
	Nacks       int    // deliveries failed in a row
	Halted      bool   // gave up on the sink
}

// Image is what a checkpoint stores of a stream.
type Image struct {
	Epoch     uint64
	Anchored  bool
	Watermark uint64
	Received  uint64
	Queue     []Batch  // with Limits.KeepPayloads only
	Missing   []Range  // unfinished numbers whose payload is not in Queue
	Digests   []Digest // sorted by number
}

// Reply is an answer to a collector. Its String is the word of the specification and of the wire.
type Reply uint8

// Answers to a batch are Received, QueueFull, Retry, Conflict and Stale; answers to a commit are
// Ack, Resend, Retry and Pending; those to a hello are from Welcomed on.
const (
	Received  Reply = iota + 1 // the batch is here, now or before
	QueueFull                  // no room: send it again later
	Retry                      // send it (again): a lower number was refused, or it was never seen
	Conflict                   // the number is taken by other bytes
	Stale                      // not wanted, and too old to compare
	Ack                        // forget everything up to the watermark
	Resend                     // send the batch again: its payload is not here
	Pending                    // here, not yet under a completed checkpoint
	Welcomed                   // say READY
	Rejected                   // another instance is connected
	Retired                    // another instance has superseded this one
	Forgot                     // the buffer lost its tail
	First                      // the numbers begin where they can't
)

var replyWords = [...]string{"", "RECEIVED", "QUEUE_FULL", "RETRY", "CONFLICT", "STALE", "ACK", "RESEND", "PENDING",
	"WELCOME", "REJECTED", "RETIRED", "FORGOT", "FIRST"}

// String is the word that Stream.tla and the wire use.
func (r Reply) String() string { return replyWords[r] }
