package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Range is the numbers from First to Last, both included.
type Range struct{ First, Last uint64 }

// members are the members of a JSON object that is the rest of a header. They have a cursor of their own, which keeps the
// first error: with a pointer to that of the header, each header would cost an allocation.
type members struct {
	c   cursor
	at  int
	raw map[string]json.RawMessage
}

func (c *cursor) members() *members {
	p := c.rest()
	m := &members{c: *c, at: p.at}
	err := json.Unmarshal(p.text, &m.raw)
	if err == nil && m.raw != nil && utf8.Valid(p.text) {
		return m
	}
	at := p.at
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		at += int(syntax.Offset)
	}
	m.c.fail(CodeBadRequest, at, "no JSON object", "one JSON object in UTF-8, on the same line")
	return m
}

// get yields a member as it stands, or "".
func (m *members) get(name, allowed string, optional bool) string {
	raw := string(m.raw[name])
	if raw == "" && !optional {
		m.c.fail(CodeBadRequest, m.at, "member "+name+" is missing", allowed)
	}
	return raw
}

func (m *members) refuse(name, allowed string) {
	m.c.fail(CodeInvalidParam, m.at, "member "+name+" is not what is allowed", allowed)
}

// version demands the number of the dialect.
func (m *members) version(name string, want uint64) {
	allowed := strconv.FormatUint(want, 10)
	if raw := m.get(name, allowed, false); raw != "" && raw != allowed {
		m.c.fail(CodeVersion, m.at, "member "+name+" is another one", allowed)
	}
}

func (m *members) number(name string, low, high uint64) uint64 {
	allowed := fmt.Sprintf("a plain decimal from %d to %d", low, high)
	raw := m.get(name, allowed, false)
	n, _, ok := parseNumber([]byte(raw), high)
	if raw != "" && (!ok || n < low) && !(low == 0 && raw == "0") {
		m.refuse(name, allowed)
		return 0
	}
	return n
}

func (m *members) millis(name string, low uint64, high time.Duration) time.Duration {
	return time.Duration(m.number(name, low, uint64(high/time.Millisecond))) * time.Millisecond
}

// text reads a string of at most so many bytes.
func (m *members) text(name string, longest int, optional bool) string {
	return m.string(name, fmt.Sprintf("a string of at most %d bytes", longest), optional, func(s string) bool { return len(s) <= longest })
}

// name reads what is safe in a metric label, a file name and a log line.
func (m *members) name(name string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return m.string(name, "a string of 1 to 64 letters, digits, dots, underscores and hyphens, but not dots alone", false, func(s string) bool {
		return len(s) <= 64 && strings.Trim(s, letters) == "" && strings.Trim(s, ".") != ""
	})
}

// word reads 1 to 64 printable ASCII characters.
func (m *members) word(name string) string {
	return m.string(name, "a string of 1 to 64 printable ASCII characters", false, func(s string) bool {
		unprintable := strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
		return len(s) >= 1 && len(s) <= 64 && !unprintable
	})
}

func (m *members) string(name, allowed string, optional bool, fits func(string) bool) string {
	raw := m.get(name, allowed, optional)
	if raw == "" {
		return ""
	}
	var s string
	if raw[0] != '"' || json.Unmarshal([]byte(raw), &s) != nil || !fits(s) {
		m.refuse(name, allowed)
		return ""
	}
	return s
}

// ranges reads pairs of first and last number, in order and without overlap.
func (m *members) ranges(name string, optional bool) []Range {
	const allowed = "an array of pairs [first,last] from 1 to 2^63-1, in order and without overlap"
	raw := m.get(name, allowed, optional)
	if raw == "" {
		return nil
	}
	var pairs [][]uint64
	good := raw[0] == '[' && json.Unmarshal([]byte(raw), &pairs) == nil
	var ranges []Range
	var last uint64
	for _, p := range pairs {
		if !good || len(p) != 2 || p[0] <= last || p[1] < p[0] || p[1] > MaxID {
			good = false
			break
		}
		last = p[1]
		ranges = append(ranges, Range{p[0], p[1]})
	}
	if !good {
		m.refuse(name, allowed)
		return nil
	}
	return ranges
}

// check demands what members demand of each other.
func (m *members) check(o interface{ disagree() (what, allowed string) }) {
	if what, allowed := o.disagree(); what != "" {
		m.c.fail(CodeInvalidParam, m.at, what, allowed)
	}
}

// appendString panics on what is no UTF-8, since JSON cannot hold it.
func appendString(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil || !utf8.ValidString(s) {
		panic("protocol: a string that is not UTF-8 cannot be sent in JSON")
	}
	return append(dst, text...)
}

// appendRanges appends at most MaxRanges ranges. Of more, the first are appended; unless the list is for people only, the
// last of them is widened so that nothing is left out.
func appendRanges(dst []byte, ranges []Range, forPeople bool) []byte {
	dst = append(dst, '[')
	for i, r := range ranges[:min(len(ranges), MaxRanges)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		if i == MaxRanges-1 && !forPeople {
			r.Last = ranges[len(ranges)-1].Last
		}
		dst = append(dst, '[')
		dst = strconv.AppendUint(dst, r.First, 10)
		dst = append(dst, ',')
		dst = strconv.AppendUint(dst, r.Last, 10)
		dst = append(dst, ']')
	}
	return append(dst, ']')
}
