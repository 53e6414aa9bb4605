package protocol

import (
	"bytes"
	"strconv"
	"time"
)

// What stands between the parts of a line, and of a header.
const (
	separator       = ':'
	headerSeparator = ' '
)

// cutWord yields the line up to its first separator, and whether there is one.
func cutWord(line []byte, sep byte) (word []byte, found bool) {
	if i := bytes.IndexByte(line, sep); i >= 0 {
		return line[:i], true
	}
	return line, false
}

// hasKeyword says whether the line up to its first separator is the keyword.
func hasKeyword(line []byte, keyword string) bool {
	n := len(keyword)
	return len(line) >= n && string(line[:n]) == keyword && (len(line) == n || line[n] == separator)
}

// A cursor reads the parts of a line or a header from left to right. It keeps the first error.
type cursor struct {
	line    []byte
	at      int
	sep     byte
	command Command
	err     *Error
}

// A part is a piece of a line, and where it begins.
type part struct {
	text []byte
	at   int
}

// fail keeps the error if it is the first, and yields the one that is kept.
func (c *cursor) fail(code Code, at int, message, allowed string) *Error {
	if c.err == nil {
		c.err = &Error{Code: code, Command: c.command, Offset: at, Message: message, Allowed: allowed}
	}
	return c.err
}

// open steps over a separator.
func (c *cursor) open() {
	if c.at == len(c.line) {
		name := "a colon"
		if c.sep == headerSeparator {
			name = "a space"
		}
		c.fail(CodeBadRequest, c.at, "separator missing", name)
		return
	}
	c.at++
}

// end demands that nothing follows.
func (c *cursor) end() {
	if c.at < len(c.line) {
		c.fail(CodeBadRequest, c.at, "more than expected", "the end of the line")
	}
}

// rest yields what is left of the line, never nil.
func (c *cursor) rest() part {
	p := part{c.line[c.at:], c.at}
	c.at = len(c.line)
	return p
}

// field yields the part up to the next separator and steps over it. Without one it is the rest of the line.
func (c *cursor) field() part {
	p := part{c.line[c.at:], c.at}
	for i, b := range p.text { // fields are short: a loop is faster than a search
		if b == c.sep {
			p.text = p.text[:i]
			c.at += i + 1
			return p
		}
	}
	c.at = len(c.line)
	c.open()
	return p
}

// word yields the part up to the next separator and steps over it. Without one it is the rest of the line, and good.
func (c *cursor) word() part {
	if i := bytes.IndexByte(c.line[c.at:], c.sep); i >= 0 {
		p := part{c.line[c.at : c.at+i], c.at}
		c.at += i + 1
		return p
	}
	return c.rest()
}

// number reads a plain decimal without sign or leading zero, or yields 0.
func (c *cursor) number(p part, low, high uint64) uint64 {
	n, bad, ok := parseNumber(p.text, high)
	if ok && n >= low || low == 0 && string(p.text) == "0" {
		return n
	}
	c.fail(CodeInvalidParam, p.at+bad, "not a number that is allowed",
		"a plain decimal from "+strconv.FormatUint(low, 10)+" to "+strconv.FormatUint(high, 10)+", no sign, no leading zero")
	return 0
}

// millis reads a number of milliseconds.
func (c *cursor) millis(p part, low uint64, high time.Duration) time.Duration {
	return time.Duration(c.number(p, low, uint64(high/time.Millisecond))) * time.Millisecond
}

// parseNumber reads digits up to high, which has at most 19 of them. When it can't, bad is where the trouble is.
func parseNumber(digits []byte, high uint64) (n uint64, bad int, ok bool) {
	const longest = 19 // digits, which a uint64 always holds
	if len(digits) == 0 || digits[0] == '0' {
		return 0, 0, false
	}
	for i, d := range digits {
		d -= '0'
		if d > 9 || i == longest {
			return 0, i, false
		}
		n = n*10 + uint64(d)
	}
	return n, 0, n <= high
}

// unknownCommand refuses a line. It shows the word in front of the separator only if that was meant to be a command,
// since it may be a token or a payload.
func unknownCommand(line []byte) *Error {
	if len(line) == 0 {
		return &Error{Code: CodeBadRequest, Message: "empty line", Allowed: knownCommands}
	}
	message := "no command word"
	if word, found := cutWord(line, separator); found && looksLikeCommand(word) {
		message = "unknown command " + strconv.QuoteToASCII(string(word))
	}
	return &Error{Code: CodeBadRequest, Message: message, Allowed: knownCommands}
}

func looksLikeCommand(word []byte) bool {
	const longest = 20
	return len(word) <= longest && len(word) > 4 && bytes.HasPrefix(word, []byte("__")) && bytes.HasSuffix(word, []byte("__"))
}

// appendNumber panics on a number that could not be read back.
func appendNumber(dst []byte, n, low, high uint64) []byte {
	if n < low || n > high {
		panic("protocol: number " + strconv.FormatUint(n, 10) + " is not from " +
			strconv.FormatUint(low, 10) + " to " + strconv.FormatUint(high, 10))
	}
	return strconv.AppendUint(dst, n, 10)
}

// appendMillis rounds up, and holds the wait between low milliseconds and MaxWait.
func appendMillis(dst []byte, wait time.Duration, low int64) []byte {
	wait = min(max(wait, time.Duration(low)*time.Millisecond), MaxWait)
	return strconv.AppendInt(dst, int64((wait+time.Millisecond-1)/time.Millisecond), 10)
}

// appendText panics on an LF: what follows it would be read as another request.
func appendText(dst, text []byte) []byte {
	if bytes.IndexByte(text, '\n') >= 0 {
		panic("protocol: an LF cannot be sent in dialect 1")
	}
	return append(dst, text...)
}
