package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

func batch(id uint64, payload string) event {
	return event{Command: protocol.CommandBatch, ID: id, Payload: payload, HasPayload: true}
}

func auth(token string) event {
	return event{Command: protocol.CommandAuth, Token: token, HasToken: true}
}

func commit(id uint64) event { return event{Command: protocol.CommandCommit, ID: id} }

// refusal is what the tests compare of a refused line; the message is looked at where it matters.
func refusal(code protocol.Code, command protocol.Command, id uint64) event {
	return event{Refused: code, Command: command, ID: id}
}

func withoutText(events []event) []event {
	for i := range events {
		events[i].Message, events[i].Offset = "", 0
	}
	return events
}

func TestParserB11(t *testing.T) {
	const bad, none = protocol.CodeBadRequest, protocol.Command(0)
	for line, want := range map[string]event{
		"__AUTH__:to:k:en\n":         auth("to:k:en"),
		"__AUTH__:tok-A\r\n":         auth("tok-A"),
		"__AUTH__:\n":                auth(""),
		"__AUTH__:tok-A \n":          auth("tok-A "),
		"__BATCH__:1:a:b::c:\n":      batch(1, "a:b::c:"),
		"__BATCH__:2:__COMMIT__:1\n": batch(2, "__COMMIT__:1"),
		"__BATCH__:3:\n":             batch(3, ""),
		"__BATCH__:4\n":              refusal(bad, protocol.CommandBatch, 4),
		"__BATCH__::x\n":             refusal(protocol.CodeInvalidParam, protocol.CommandBatch, 0),
		"__BATCH__:5:x\r\n":          batch(5, "x"),
		"\n":                         refusal(bad, none, 0),
		"\r\n":                       refusal(bad, none, 0),
		"__batch__:6:x\n":            refusal(bad, none, 0),
		"__COMMIT__:1:x\n":           refusal(protocol.CodeInvalidParam, protocol.CommandCommit, 0),
		"__COMMIT__:1\r\n":           commit(1),
	} {
		// The line after it must be untouched by whatever was wrong before.
		got := withoutText(readEverySplit(t, 0, []byte(line+"__COMMIT__:7\n")))
		require.Equal(t, []event{want, commit(7)}, got, "%q", line)
	}
}

func TestParserB24(t *testing.T) {
	for _, id := range []uint64{1, 9007199254740993, 9223372036854775807} {
		line := fmt.Sprintf("__BATCH__:%d:x\n__COMMIT__:%d\n", id, id)
		require.Equal(t, []event{batch(id, "x"), commit(id)}, readEverySplit(t, 0, []byte(line)))
	}
	for _, id := range []string{"9223372036854775808", "18446744073709551616", "18446744073709551615", "0", "-1", "+1", "01", " 1", "1 ",
		"1e3", "0x10", "1_000", "１", "", strings.Repeat("7", 400)} {
		line := "__BATCH__:" + id + ":x\n__COMMIT__:" + id + "\n"
		require.Equal(t, []event{
			refusal(protocol.CodeInvalidParam, protocol.CommandBatch, 0),
			refusal(protocol.CodeInvalidParam, protocol.CommandCommit, 0),
		}, withoutText(readEverySplit(t, 0, []byte(line))), "%q", id)
	}
}

// lineOf makes a BATCH line of n bytes without its ending.
func lineOf(id uint64, n int) string {
	head := fmt.Sprintf("__BATCH__:%d:", id)
	return head + strings.Repeat("p", n-len(head))
}

func TestParserB05(t *testing.T) {
	tooLarge := refusal(protocol.CodeTooLarge, protocol.CommandBatch, 5)
	for _, limit := range []int{20, 64, 100} {
		for _, ending := range []string{"\n", "\r\n"} {
			for over := -1; over <= 3; over++ {
				line := lineOf(5, limit+over)
				want := tooLarge
				if over <= 0 {
					want = batch(5, strings.TrimPrefix(line, "__BATCH__:5:"))
				}
				got := readEverySplit(t, limit, []byte(line+ending+"__COMMIT__:1\n"))
				require.Equal(t, []event{want, commit(1)}, withoutText(got), "limit %d, %d over, ending %q", limit, over, ending)
			}
		}
	}
	// The tail of a refused line is never read as a request, wherever it is cut.
	got := readEverySplit(t, 20, []byte(lineOf(5, 21)+"__BATCH__:9:smuggled\n__COMMIT__:1\n"))
	require.Equal(t, []event{tooLarge, commit(1)}, withoutText(got))
	// 64 KiB+1 is far below the default limit.
	line := lineOf(5, 64<<10+1)
	require.Len(t, read(t, 0, []byte(line+"\n")), 1)
}

func TestParserB05DefaultLimit(t *testing.T) {
	line := []byte(lineOf(5, protocol.DefaultMaxLine))
	got := read(t, 0, line, []byte("\r"), []byte("\n"))
	require.Len(t, got, 1)
	require.Zero(t, got[0].Refused)
	require.Len(t, got[0].Payload, protocol.DefaultMaxLine-len("__BATCH__:5:"))

	got = withoutText(read(t, 0, line, []byte("p"), []byte("p\n")))
	require.Equal(t, []event{refusal(protocol.CodeTooLarge, protocol.CommandBatch, 5)}, got)
}

// A line of 100 MB without an end, in pieces of 32 KiB, costs one refusal and no memory in the parser.
func TestParserB05EndlessLine(t *testing.T) {
	const limit = 64 << 10
	p := protocol.Parser{MaxLine: limit}
	piece := bytes.Repeat([]byte("x"), 32<<10)
	buf := append(make([]byte, 0, 2*limit), "__AUTH__:"...)
	refused := 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for sent := 0; sent < 100_000_000; sent += len(piece) {
		buf = append(buf, piece...)
		req, n, err := p.Next(buf)
		if errors.Is(err, protocol.ErrTooLarge) {
			refused++
		} else if err != nil || req.Command != 0 {
			t.Fatalf("%v, %v", req.Command, err)
		}
		if buf = buf[:copy(buf, buf[n:])]; len(buf) > limit {
			t.Fatalf("%d bytes are left to the caller", len(buf))
		}
	}
	runtime.ReadMemStats(&after)
	require.Equal(t, 1, refused)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*limit))

	req, n, err := p.Next([]byte("tail\n__COMMIT__:3\n"))
	require.NoError(t, err)
	require.Equal(t, protocol.CommandCommit, req.Command)
	require.Equal(t, len("tail\n__COMMIT__:3\n"), n)
}

func TestParserRefusesAtOnce(t *testing.T) {
	p := protocol.Parser{MaxLine: 16}
	buf := []byte("__BATCH__:1:abcd")
	for _, more := range []string{"", "\r"} { // the CR may belong to the ending
		req, n, err := p.Next(append(buf, more...))
		require.NoError(t, err)
		require.Zero(t, n)
		require.Zero(t, req)
	}
	_, n, err := p.Next(append(buf, "\rx"...))
	require.ErrorIs(t, err, protocol.ErrTooLarge)
	require.Equal(t, len(buf)+2, n)
}

// A peer that sends one byte at a time must not make the parser search the same bytes again and again.
func TestParserSearchesOnce(t *testing.T) {
	var p protocol.Parser
	buf := bytes.Repeat([]byte("x"), 64)
	_, _, err := p.Next(buf)
	require.NoError(t, err)
	buf[10] = '\n' // not looked at any more: the caller must leave unused bytes as they are
	req, n, err := p.Next(append(buf, 'y'))
	require.NoError(t, err)
	require.Zero(t, n)
	require.Zero(t, req)
}

func TestParserAliasesTheBuffer(t *testing.T) {
	buf := []byte("__BATCH__:1:abc\n__AUTH__:tok\n")
	var p protocol.Parser
	first, n, err := p.Next(buf)
	require.NoError(t, err)
	second, _, err := p.Next(buf[n:])
	require.NoError(t, err)
	copy(buf, bytes.Repeat([]byte("z"), len(buf)))
	require.Equal(t, "zzz", string(first.Payload))
	require.Equal(t, "zzz", string(second.Token))
}

func TestParserDoesNotAllocate(t *testing.T) {
	buf := []byte("__AUTH__:tok\n__BATCH__:1:abc\r\n__COMMIT__:9223372036854775807\n")
	var p protocol.Parser
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for at := 0; at < len(buf); {
			_, n, err := p.Next(buf[at:])
			if err != nil || n == 0 {
				panic("no request")
			}
			at += n
		}
	}))
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	for line, want := range map[string]string{
		"\n":                 `BAD_REQUEST: empty line at byte 0; allowed: __AUTH__:, __BATCH__:, __COMMIT__:`,
		"__HELLO__:1\n":      `BAD_REQUEST: unknown command "__HELLO__" at byte 0; allowed: __AUTH__:, __BATCH__:, __COMMIT__:`,
		"__\x1b[2J__:1\n":    `BAD_REQUEST: unknown command "__\x1b[2J__" at byte 0; allowed: __AUTH__:, __BATCH__:, __COMMIT__:`,
		"__BATCH__:7\n":      `BAD_REQUEST: separator missing at byte 11; allowed: a colon`,
		"__BATCH__:1x:abc\n": `INVALID_PARAM: not a number that is allowed at byte 11; allowed: a plain decimal from 1 to 9223372036854775807, no sign, no leading zero`,
		"__COMMIT__:05\n":    `INVALID_PARAM: not a number that is allowed at byte 11; allowed: a plain decimal from 1 to 9223372036854775807, no sign, no leading zero`,
		lineOf(1, 31) + "\n": `TOO_LARGE: line too long at byte 30; allowed: at most 30 bytes before the line ending`,
	} {
		got := read(t, 30, []byte(line))
		require.Len(t, got, 1)
		require.Equal(t, want, got[0].Message)
	}
}

// No error shows a token or a payload, whatever the collector got wrong (B45).
func TestErrorsHideSecretsB45(t *testing.T) {
	for _, line := range []string{"SECRET-X", "SECRET-X:more", "__AUTH__ SECRET-X", "AUTH:SECRET-X", "__AUHT__:SECRET-X", "__BATCH__:SECRET-X",
		"__BATCH__:SECRET-X:SECRET-X", "__COMMIT__:SECRET-X", "__SECRET-X-and-much-more-behind-it__:x", "__AUTH__:" + strings.Repeat("SECRET-X", 20)} {
		for _, e := range read(t, 100, []byte(line+"\n")) {
			require.NotZero(t, e.Refused, "%q", line)
			require.NotContains(t, e.Message, "SECRET", "%q", line)
		}
	}
}
