package protocol

import "bytes"

// ParseReply reads one reply of dialect 1, with or without its ending. The error is an *Error, ErrReply for errors.Is:
// the collector closes the connection and keeps its batches.
func ParseReply(line []byte) (Reply, error) {
	line = dropCR(bytes.TrimSuffix(line, []byte("\n")))
	r, bad := parseReply(line)
	if bad != nil {
		bad.Code = 0
		return Reply{}, bad
	}
	return r, nil
}
