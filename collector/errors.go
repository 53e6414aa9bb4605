package collector

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/protocol"
)

// ErrRejected says that another connection of this collector is alive. It may be our own last one, of which the ingress
// does not know yet that it is gone.
var ErrRejected = errors.New("REJECTED: another connection of this collector is alive")

// ErrUnexpected says that a reply makes no sense as an answer to what was asked. The connection is given up, nothing is
// forgotten.
var ErrUnexpected = errors.New("unexpected reply")

// ErrClosed is what Send and Wait return after Close.
var ErrClosed = errors.New("collector: closed")

// Refused says that the ingress will not take what it was sent, now or later: a person must look. The record, and all
// that is not acknowledged, is still held.
type Refused struct {
	Code   protocol.Code
	ID     uint64 // number of the batch; 0 when it is not about one
	Record []byte // the beginning of its record
}

// Error names the record, and says what to do.
func (e *Refused) Error() string {
	if e.ID == 0 {
		return fmt.Sprintf("%v: %s", e.Code, advice[e.Code])
	}
	return fmt.Sprintf("record %d (%.60q): %v: %s", e.ID, e.Record, e.Code, advice[e.Code])
}

var advice = map[protocol.Code]string{
	protocol.CodeAuthFailed: "the ingress does not know this token",
	protocol.CodeConflict: "the ingress has another record under this number; the numbers of this collector were used before, " +
		"by a buffer that is lost or by another machine: use another collector name",
	protocol.CodeStale: "the ingress is past this number and can't compare any more; the numbers of this collector were used before, " +
		"by a buffer that is lost or by another machine: use another collector name",
	protocol.CodeTooLarge:      "the line is longer than the ingress takes; see its --max-line-bytes",
	protocol.CodeDecryptFailed: "the ingress can't decrypt it; the keys of both sides must agree",
	protocol.CodeDecodeFailed:  "the ingress can't decode it; see its --packet-mode",
	protocol.CodeBadRequest:    "the ingress does not understand the request",
	protocol.CodeInvalidParam:  "the ingress does not take the number",
}

// BadRecord says that a record can't be sent at all.
type BadRecord struct {
	Index   int // among those given to Send, from 0
	Problem string
}

func (e *BadRecord) Error() string {
	return fmt.Sprintf("record %d of this call: %s", e.Index, e.Problem)
}

// Overdrawn says that the ingress acknowledged a number that was never sent to it. Nothing is forgotten.
type Overdrawn struct{ Watermark, Sent uint64 }

func (e *Overdrawn) Error() string {
	return fmt.Sprintf("the ingress acknowledged %d, but the highest number sent on this connection is %d: it is not to be trusted", e.Watermark, e.Sent)
}

// fatal tells errors that no new connection can cure.
func fatal(err error) bool {
	var refused *Refused
	var overdrawn *Overdrawn
	return errors.As(err, &refused) || errors.As(err, &overdrawn)
}
