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

// What an ingress of dialect 2 may say, too. After ErrFenced a newer connection of this instance has the seat; a late
// HELLO of an own connection that broke may have done that, so a client tries again as often as that can be. ErrRetired and
// ErrForgot mean that the numbers are taken: a client begins anew with a new instance. ErrIdle and ErrBye end a
// connection, and no more.
var (
	ErrFenced  = errors.New("FENCED: a newer connection of this collector and instance took over; is another process using a copy of the buffer?")
	ErrRetired = errors.New("RETIRED: another instance of this collector came later")
	ErrForgot  = errors.New("FORGOT: the ingress has numbers that the buffer does not know to be used")
	ErrIdle    = errors.New("IDLE: nothing was heard for the idle limit")
	ErrBye     = errors.New("BYE: everything that was sent is acknowledged")
)

var errAway = errors.New("the ingress said GOAWAY, and did not close")

// ErrClosed is what Send and Wait return after Close.
var ErrClosed = errors.New("collector: closed")

// Refused says that the ingress will not take what it was sent, now or later: a person must look. The record, and all
// that is not acknowledged, is still held.
type Refused struct {
	Code   protocol.Code
	ID     uint64 // of the batch, as Send returned it; 0 when it is not about one
	Number uint64 // of the batch, on the wire
	Record []byte // its first record
	Batch  Batch  // all of it, in dialect 2
	Text   string // what the ingress said, in dialect 2
}

// Error names the batch, and says what to do.
func (e *Refused) Error() string {
	said := ""
	if e.Text != "" {
		said = fmt.Sprintf(" (%q)", e.Text)
	}
	switch {
	case e.ID == 0:
		return fmt.Sprintf("%v%s: %s", e.Code, said, advice[e.Code])
	case e.Batch.Records > 1:
		return fmt.Sprintf("batch %d (%d records from %.60q): %v%s: %s", e.Number, e.Batch.Records, e.Record, e.Code, said, advice[e.Code])
	}
	return fmt.Sprintf("record %d (%.60q): %v%s: %s", e.Number, e.Record, e.Code, said, advice[e.Code])
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
	protocol.CodeFirst: "the buffer begins far above what the ingress has, so what lies between is lost, or another stream was meant; if that is so, " +
		"`tidemark forget` gives it up",
	protocol.CodeVersion: "the ingress does not speak this version of dialect 2; use --dialect 1",
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
