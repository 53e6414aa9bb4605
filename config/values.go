package config

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// A Size is a number of bytes, never negative. As text it is a whole number with B, KiB, MiB, GiB or TiB behind it, or
// none for bytes.
type Size int64

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

func parseSize(text string) (Size, bool) {
	digits := strings.TrimRight(text, "BKMGTi")
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, false
	}
	unit := text[len(digits):]
	if unit == "" {
		return Size(n), true
	}
	for i, known := range sizeUnits {
		if unit == known {
			return Size(n << (10 * i)), n <= math.MaxInt64>>(10*i)
		}
	}
	return 0, false
}

// String writes the size in the largest unit that it is a whole number of.
func (s Size) String() string {
	unit := 0
	if s != 0 {
		unit = min(bits.TrailingZeros64(uint64(s))/10, len(sizeUnits)-1)
	}
	return strconv.FormatInt(int64(s)>>(10*unit), 10) + sizeUnits[unit]
}

// A Framing is how a file sink tells one record from the next.
type Framing string

// FramingLF ends each record with one LF. FramingLength puts the uvarint length in front of it.
const (
	FramingLF     Framing = "lf"
	FramingLength Framing = "length"
)

// A SinkKind says what kind of sink it is.
type SinkKind string

// SinkFile appends to a file; SinkStdout writes to standard output, at least once.
const (
	SinkFile   SinkKind = "file"
	SinkStdout SinkKind = "stdout"
)

// A Sink says where records go.
type Sink struct {
	Kind    SinkKind
	Path    string  // of a file
	Framing Framing // of a file
}

func parseSink(text string) (Sink, bool) {
	kind, rest, found := strings.Cut(text, ":")
	if !found {
		return Sink{}, false
	}
	s := Sink{Kind: SinkKind(kind), Path: rest}
	if s.Kind == SinkFile {
		path, framing, given := strings.Cut(rest, "?framing=")
		s.Path, s.Framing = path, FramingLF
		if given {
			s.Framing = Framing(framing)
		}
	}
	return s, s.valid()
}

func (s Sink) valid() bool {
	switch s.Kind {
	case SinkFile:
		return s.Path != "" && !strings.Contains(s.Path, "?") && (s.Framing == FramingLF || s.Framing == FramingLength)
	case SinkStdout:
		return s.Path == "" && s.Framing == ""
	}
	return false
}

// String is the form that it is read from.
func (s Sink) String() string {
	text := string(s.Kind) + ":" + s.Path
	if s.Framing == FramingLength {
		text += "?framing=length"
	}
	return text
}

// A Token is what a collector shows to be let in. Printing it shows only the name.
type Token struct {
	Collector string
	Secret    string
}

// String hides the secret.
func (t Token) String() string { return t.Collector + "=..." }

// GoString hides the secret.
func (t Token) GoString() string { return t.String() }

func parseToken(text string) (Token, bool) {
	name, token, found := strings.Cut(text, "=")
	t := Token{name, token}
	return t, found && t.valid()
}

func (t Token) valid() bool { return isName(t.Collector) && isToken(t.Secret) }

// A First says with which number a collector begins.
type First struct {
	Collector string
	ID        uint64 // 1 to 2^63-1
}

func parseFirst(text string) (First, bool) {
	name, number, found := strings.Cut(text, "=")
	id, err := strconv.ParseUint(number, 10, 63)
	f := First{name, id}
	return f, found && err == nil && f.valid()
}

func (f First) valid() bool { return isName(f.Collector) && between(f.ID, 1, math.MaxInt64) }

// String is the form that it is read from.
func (f First) String() string { return f.Collector + "=" + strconv.FormatUint(f.ID, 10) }
