package protocol

import (
	"encoding/binary"
	"iter"
	"strconv"
)

// AppendRecord appends one record of a batch's payload: its length as a minimal uvarint, then its bytes.
func AppendRecord(dst, record []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(record)))
	return append(dst, record...)
}

// Records yields the records of a batch's payload in order; they alias it. At the first damage it yields a nil record
// with an *Error of CodeDecodeFailed, and ends. It allocates nothing for what is good.
func Records(payload []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for at := 0; at < len(payload); {
			length, n := binary.Uvarint(payload[at:])
			rest := payload[at+max(n, 0):]
			switch {
			case n <= 0 || n > 1 && payload[at+n-1] == 0:
				yield(nil, badRecord(at, "record length is not a minimal uvarint", "a minimal uvarint"))
				return
			case length > uint64(len(rest)):
				yield(nil, badRecord(at, "record is longer than the rest of the payload", "at most "+
					strconv.Itoa(len(rest))+" bytes"))
				return
			}
			at += n + int(length)
			if !yield(rest[:length:length], nil) {
				return
			}
		}
	}
}

// CheckRecords says whether a payload holds exactly n records, n >= 1, and nothing else. The error is an *Error of
// CodeDecodeFailed.
func CheckRecords(payload []byte, n int) error {
	found := 0
	for _, err := range Records(payload) {
		if err != nil {
			return err
		}
		found++
	}
	if found != n || n < 1 {
		return badRecord(len(payload), strconv.Itoa(found)+" records in the payload", strconv.Itoa(max(n, 1))+" records")
	}
	return nil
}

func badRecord(at int, message, allowed string) *Error {
	return &Error{Code: CodeDecodeFailed, Command: CommandBatch, Offset: at, Message: message, Allowed: allowed}
}
