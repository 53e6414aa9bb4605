package protocol

import (
	"errors"
	"fmt"
)

// ErrReply is the error for a reply that cannot be read. The collector closes the connection and keeps its batches.
var ErrReply = errors.New("unreadable reply")

// An Error is bad input: what was wrong, where, and what is allowed. errors.Is finds the sentinel of its code, such
// as ErrTooLarge, or ErrReply. It holds no byte of a payload or token, so it can be logged.
type Error struct {
	Code    Code    // what to answer; 0 for a reply that cannot be read
	Command Command // of the bad request, where it could be read
	ID      uint64  // of the bad batch, where it could be read
	Size    int     // of a batch of dialect 2 that is too large: the bytes of its payload
	Offset  int     // where in the line, header, payload or packet the trouble is, in bytes from its start
	Message string  // what is wrong
	Allowed string  // what is allowed
	Closes  bool    // dialect 2: what follows cannot be read, so that the connection must be closed
}

// Error says all of it on one line.
func (e *Error) Error() string {
	return fmt.Sprintf("%v: %s at byte %d; allowed: %s", sentinel(e.Code), e.Message, e.Offset, e.Allowed)
}

// Unwrap yields the sentinel of the code.
func (e *Error) Unwrap() error { return sentinel(e.Code) }
