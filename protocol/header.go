package protocol

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reason reads a code out of some. Another word is no error, since a newer ingress may have more: it yields 0, and the
// word goes in front of the text.
func (c *cursor) reason(p part, among []Code) Code {
	for _, code := range among {
		if string(p.text) == code.String() {
			return code
		}
	}
	c.at = p.at
	return 0
}

// appendReason panics on a code that could not be read back.
func appendReason(dst []byte, code Code, among []Code) []byte {
	if !slices.Contains(among, code) {
		panic("protocol: " + code.String() + " is no reason for this message")
	}
	return append(dst, code.String()...)
}

// appendCount panics on a count that could not be read back.
func appendCount(dst []byte, n int, low, high uint64) []byte {
	if n < 0 {
		panic("protocol: count " + strconv.Itoa(n) + " is below 0")
	}
	return appendNumber(dst, uint64(n), low, high)
}

// appendShort appends a separator and text for people, but nothing when there is none. What could end the header or
// confuse a terminal becomes a space, and what is behind MaxText bytes is cut off.
func appendShort(dst []byte, text string) []byte {
	if text == "" {
		return dst
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r // what is no UTF-8 becomes U+FFFD
	}, text)
	if len(text) > MaxText {
		end := MaxText
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	dst = append(dst, headerSeparator)
	return append(dst, text...)
}

// mustRead panics when what was appended could not be read back.
func mustRead(bad *Error) {
	if bad != nil {
		panic("protocol: " + bad.Error())
	}
}
