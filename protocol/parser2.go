package protocol

import (
	"bytes"
	"strconv"
)

// A Parser2 reads what the collector sends on one dialect 2 connection. Its zero value is ready, with DefaultMaxBatch
// as limit. It keeps no bytes of its own. One goroutine at a time.
type Parser2 struct {
	// MaxBatch is the largest payload that is taken, in bytes, at most MaxCount. 0 or less: DefaultMaxBatch. A buffer of
	// MaxBatch+MaxHeader+4 bytes, or of MaxJSON+8 if that is more, is always enough to make progress.
	MaxBatch int

	f framer
}

// Next reads the first message of buf, which begins with the bytes that the last call left unused. It used up n bytes
// of buf, and the payload aliases some of them.
//
// Without an error, a Command of 0 means that buf holds no whole message after its first n bytes: more are needed, and
// Need may tell how many. Then n is 0, but for bytes of a refused payload that were thrown away.
//
// An error is an *Error. A batch whose header tells more than MaxBatch is refused with CodeTooLarge as soon as the
// header is here, with its ID and Size; its payload is thrown away by the next calls, which then go on behind it: answer
// NACK. Any other error Closes: answer ERROR with its Code and close. From then on each call uses up all of buf and
// yields the same error.
//
// However the bytes are split over calls, the same messages and errors come out. A good message costs no allocation,
// but for HELLO. That a payload holds as many records as its header tells is for CheckRecords to say.
func (p *Parser2) Next(buf []byte) (req Request2, n int, err error) {
	n, ready := p.f.begin(buf)
	if !ready {
		return Request2{}, n, p.f.err()
	}
	line, end, whole := p.f.header(buf[n:], hello)
	if !whole {
		return Request2{}, n + end, p.f.err()
	}
	size, bad := parseRequest2(line, &req)
	if bad != nil {
		bad.ID = req.ID
		return Request2{}, len(buf), p.f.fail(bad)
	}
	if size == 0 {
		p.f.done()
		return req, n + end, nil
	}
	limit := min(p.MaxBatch, MaxCount)
	if limit <= 0 {
		limit = DefaultMaxBatch
	}
	if size > limit {
		p.f.refuse(size)
		return Request2{}, n + end, &Error{
			Code: CodeTooLarge, Command: CommandBatch, ID: req.ID, Size: size, Offset: len(line), Message: "payload of " +
				strconv.Itoa(size) + " bytes", Allowed: "at most " + strconv.Itoa(limit) + " bytes",
		}
	}
	payload, end, whole := p.f.payload(buf[n:], end, size)
	if !whole {
		return Request2{}, n + end, p.f.err()
	}
	req.Payload = payload
	return req, n + end, nil
}

// Need tells how many bytes a buffer must be able to hold, from the first byte that the last call of Next left unused, so
// that the batch which is coming fits. 0: no header of a batch is waiting for its payload. It lets a reader grow its
// buffer once.
func (p *Parser2) Need() int { return p.f.need }

// A ReplyParser2 reads what the ingress sends on one dialect 2 connection. Its zero value is ready. It keeps no bytes of
// its own. One goroutine at a time. A buffer of MaxJSON+10 bytes is always enough to make progress.
type ReplyParser2 struct{ f framer }

// welcome is what the long header of the ingress begins with.
var welcome = []byte(CodeWelcome.String() + string(headerSeparator))

// Next reads the first message of buf, which begins with the bytes that the last call left unused, and used up n bytes
// of it. Without an error, a Code of 0 means that buf holds no whole message: more bytes are needed, and n is 0.
//
// The error is an *Error, ErrReply for errors.Is: the collector closes the connection and keeps its batches. From then
// on each call uses up all of buf and yields the same error.
//
// However the bytes are split over calls, the same messages and errors come out. A good message costs no allocation, but
// for WELCOME and texts.
func (p *ReplyParser2) Next(buf []byte) (r Reply2, n int, err error) {
	n, ready := p.f.begin(buf)
	if !ready {
		return Reply2{}, n, p.f.err()
	}
	line, end, whole := p.f.header(buf, welcome)
	if whole {
		if bad := parseReply2(line, &r); bad != nil {
			p.f.fail(bad)
			whole, end = false, len(buf)
		}
	}
	if !whole {
		if p.f.failed != nil {
			p.f.failed.Code = 0
		}
		return Reply2{}, end, p.f.err()
	}
	p.f.done()
	return r, end, nil
}

// A framer cuts a stream of dialect 2 into headers and payloads.
type framer struct {
	searched int // bytes at the start of what is unused that are known to hold no end of a header
	need     int // bytes that hold the batch that is coming; 0: none is
	skip     int // bytes of a refused payload that are still to be thrown away
	refused  int // length of the refused payload of which the ending is still to come; 0: none
	failed   *Error
}

// err yields the error that ended the connection. A nil *Error would be no nil error.
func (f *framer) err() error {
	if f.failed == nil {
		return nil
	}
	return f.failed
}

func (f *framer) fail(bad *Error) error {
	bad.Closes = true
	f.failed = bad
	return bad
}

// done makes ready for the next message.
func (f *framer) done() { f.searched, f.need = 0, 0 }

// refuse has the payload behind a header thrown away.
func (f *framer) refuse(size int) {
	f.done()
	f.skip, f.refused = size, size
}

// begin steps over what is left of a refused batch. Not ready: all there is of it was used up, but for a CR that may
// belong to the ending.
func (f *framer) begin(buf []byte) (n int, ready bool) {
	if f.failed != nil {
		return len(buf), false
	}
	if f.refused == 0 {
		return 0, true
	}
	n = min(f.skip, len(buf))
	f.skip -= n
	ending, whole := lineEnding(buf[n:])
	if f.skip > 0 || !whole {
		return n, false
	}
	if ending == 0 {
		f.fail(noEnding(f.refused))
		return len(buf), false
	}
	f.refused = 0
	return n + ending, true
}

// header yields the header that buf begins with, without its ending, and where what follows it begins. Whole is false
// when more bytes are needed, or when it is too long; then end is how many bytes are used up.
func (f *framer) header(buf, long []byte) (line []byte, end int, whole bool) {
	limit := MaxHeader
	if bytes.HasPrefix(buf, long) {
		limit = len(long) + MaxJSON
	}
	at := bytes.IndexByte(buf[f.searched:], '\n')
	if at >= 0 {
		at += f.searched
		if line = dropCR(buf[:at]); len(line) <= limit {
			return line, at + 1, true
		}
	} else if !passes(buf, limit) {
		f.searched = len(buf)
		return nil, 0, false
	}
	f.fail(&Error{
		Code: CodeTooLarge, Offset: limit, Message: "header too long",
		Allowed: "at most " + strconv.Itoa(limit) + " bytes before the line ending",
	})
	return nil, len(buf), false
}

// payload yields the payload of so many bytes behind the header, and where what follows it begins. Whole is false when
// more bytes are needed, or when no line ending follows; then end is how many bytes are used up.
func (f *framer) payload(buf []byte, header, size int) (payload []byte, end int, whole bool) {
	end = header + size
	f.searched, f.need = 0, end+2
	ending, whole := lineEnding(buf[min(end, len(buf)):])
	switch {
	case !whole:
		return nil, 0, false
	case ending == 0:
		f.fail(noEnding(size))
		return nil, len(buf), false
	}
	f.done()
	return buf[header:end:end], end + ending, true
}

// lineEnding yields the length of the line ending that buf begins with, 0 for none. It is not whole when more bytes are
// needed to tell.
func lineEnding(buf []byte) (length int, whole bool) {
	switch {
	case len(buf) > 0 && buf[0] == '\n':
		return 1, true
	case len(buf) == 0 || buf[0] == '\r' && len(buf) == 1:
		return 0, false
	case buf[0] == '\r' && buf[1] == '\n':
		return 2, true
	}
	return 0, true
}

func noEnding(size int) *Error {
	return &Error{
		Code: CodeBadRequest, Command: CommandBatch, Size: size, Offset: size, Message: "no line ending behind the payload",
		Allowed: "CRLF or LF behind as many bytes as the header tells",
	}
}
