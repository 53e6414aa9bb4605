package sink

import (
	"errors"
	"fmt"
)

// ErrTransient is wrapped by errors that go away by themselves: a full disk, a lost connection.
var ErrTransient = errors.New("transient")

// Refused says that the sink will not take a record as it is, now or later.
type Refused struct {
	Batch  uint64 // number of the batch
	Record int    // index in the batch, from 0
	Err    error
}

func (e *Refused) Error() string {
	return fmt.Sprintf("batch %d, record %d: refused by the sink: %v", e.Batch, e.Record, e.Err)
}

// Unwrap gives the sink's own error.
func (e *Refused) Unwrap() error { return e.Err }
