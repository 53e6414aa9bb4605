package protocol

import (
	"bytes"
	"strconv"
)

// A Parser reads the requests of one dialect 1 connection. Its zero value is ready, with DefaultMaxLine as limit. It
// keeps no bytes of its own. One goroutine at a time.
type Parser struct {
	// MaxLine is the longest line that is taken, in bytes without its ending (LF or CRLF). 0 or less: DefaultMaxLine. A
	// buffer of MaxLine+2 bytes is always enough to make progress.
	MaxLine int

	searched int  // bytes at the start of the next buf that are known to hold no LF
	skipping bool // the next bytes are the rest of a line that was refused
}

// Next reads the first request of buf, which begins with the bytes that the last call left unused. It used up n bytes
// of buf, and the request aliases some of them.
//
// Without an error, a Command of 0 means that buf holds no whole line after its first n bytes: more are needed. Then n
// is 0, but for bytes of a refused line that were thrown away.
//
// An error is an *Error with the Code to answer, and with the Command and ID where they could be read; the next call
// goes on behind the bad line. A line that passes MaxLine is refused with CodeTooLarge at once, whole or not, and what
// is still to come of it is thrown away by the next calls.
//
// However the bytes are split over calls, the same requests and errors come out. A good line costs no allocation.
func (p *Parser) Next(buf []byte) (req Request, n int, err error) {
	if p.skipping {
		end := bytes.IndexByte(buf, '\n')
		if end < 0 {
			return Request{}, len(buf), nil
		}
		p.skipping = false
		n = end + 1
	}
	limit := p.MaxLine
	if limit <= 0 {
		limit = DefaultMaxLine
	}
	line := buf[n:]
	end := bytes.IndexByte(line[p.searched:], '\n')
	if end < 0 {
		if passes(line, limit) {
			p.searched, p.skipping = 0, true
			return Request{}, len(buf), tooLarge(line, limit)
		}
		p.searched = len(line)
		return Request{}, n, nil
	}
	end += p.searched
	p.searched = 0
	n += end + 1
	line = dropCR(line[:end])
	if len(line) > limit {
		return Request{}, n, tooLarge(line, limit)
	}
	if bad := parseLine(line, &req); bad != nil {
		bad.ID = req.ID
		return Request{}, n, bad
	}
	return req, n, nil
}

// passes says whether a line of which LF has not come yet is over the limit already. One byte over may be a CR that
// belongs to the ending.
func passes(line []byte, limit int) bool {
	over := len(line) - limit
	return over > 1 || over == 1 && line[limit] != '\r'
}

// tooLarge refuses a line. It looks at the first limit+1 bytes only, which are here however the line was split.
func tooLarge(line []byte, limit int) *Error {
	var req Request
	bad := parseLine(line[:limit+1], &req)
	e := &Error{
		Code: CodeTooLarge, Command: req.Command, Offset: limit,
		Message: "line too long", Allowed: "at most " + strconv.Itoa(limit) + " bytes before the line ending",
	}
	if bad == nil && req.Payload != nil { // a number in front of the payload is whole; one at the end may be cut
		e.ID = req.ID
	}
	return e
}

// dropCR strips exactly one CR.
func dropCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}
