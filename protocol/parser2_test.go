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

func TestDialect(t *testing.T) {
	for prefix, want := range map[string]int{
		"": 0, "H": 0, "HELL": 0, "HELLO": 0, "HELLO ": 2, "HELLO {}": 2,
		"_": 1, "__AUTH__:tok": 1, "\n": 1, "hello ": 1, "HELP": 1, "HELLO\r\n": 1, "READY\r\n": 1, "GET / HTTP/1.1": 1,
	} {
		require.Equal(t, want, protocol.Dialect([]byte(prefix)), "%q", prefix)
	}
}

// helloOf makes a HELLO whose JSON has n bytes.
func helloOf(n int) string {
	const head, tail = `{"version":2,"collector":"a","instance":"i","token":"t","first":0,"next":0,"more":"`, `"}`
	return "HELLO " + head + strings.Repeat("m", n-len(head)-len(tail)) + tail
}

// ofRequests makes parsers for what the collector sends.
func ofRequests(t testing.TB, maxBatch int) func() next {
	return func() next { return requests2(t, maxBatch) }
}

func TestHeadersOverTheLimitEndTheConnection(t *testing.T) {
	long := strings.Repeat("x", protocol.MaxHeader)
	for _, ending := range []string{"\n", "\r\n"} {
		got := read2(t, requests2(t, 0), []byte(helloOf(protocol.MaxJSON)), []byte(ending))
		require.Len(t, got, 1)
		require.False(t, got[0].Refused)
		got = readEverySplit2(t, ofRequests(t, 0), []byte(long+ending+"PING\r\n"))
		require.Len(t, got, 1)
		require.Equal(t, protocol.CodeBadRequest, got[0].Bad.Code, "of exactly the limit it is read, and unknown")
		got = readEverySplit2(t, ofRequests(t, 0), []byte(long+"x"+ending+"PING\r\n"))
		require.Len(t, got, 1)
		require.Equal(t, "TOO_LARGE: header too long at byte 1024; allowed: at most 1024 bytes before the line ending", got[0].Bad.Error())
		require.True(t, got[0].Bad.Closes)
		got = read2(t, requests2(t, 0), []byte(helloOf(protocol.MaxJSON+1)), []byte(ending))
		require.Len(t, got, 1)
		require.Equal(t, protocol.CodeTooLarge, got[0].Bad.Code)
		require.Equal(t, len("HELLO ")+protocol.MaxJSON, got[0].Bad.Offset)
	}
	got := read2(t, replies2(t), []byte("ACK 1\r\n"+long), []byte("\rx"))
	require.Len(t, got, 2)
	require.Equal(t, "unreadable reply: header too long at byte 1024; allowed: at most 1024 bytes before the line ending", got[1].Bad.Error())
	require.True(t, got[1].Bad.Closes)
}

// Each message of a collector as an event.
func someRequests() []event2 {
	return []event2{
		{Request: protocol.Request2{Command: protocol.CommandHello, Hello: &protocol.Hello{Collector: "edge-7", Instance: "a b~",
			Token: "<\"tök\\en\x00&>", First: 57, Next: protocol.MaxID}}},
		{Request: protocol.Request2{Command: protocol.CommandReady}},
		{Request: protocol.Request2{Command: protocol.CommandBatch, ID: 57, Records: 1}, Payload: "\x04\r\n\r\n"},
		{Request: protocol.Request2{Command: protocol.CommandBatch, ID: protocol.MaxID, Records: protocol.MaxCount}, Payload: "\x00"},
		{Request: protocol.Request2{Command: protocol.CommandSkip, ID: 58}},
		{Request: protocol.Request2{Command: protocol.CommandPing}},
		{Request: protocol.Request2{Command: protocol.CommandPong}},
		{Request: protocol.Request2{Command: protocol.CommandBye}},
	}
}

func TestRequests2ComeBack(t *testing.T) {
	var all []byte
	seen := map[protocol.Command]bool{}
	for _, e := range someRequests() {
		bytes := appendEvent2([]byte("x"), e)[1:]
		require.Equal(t, []event2{e}, readEverySplit2(t, ofRequests(t, 0), bytes))
		require.True(t, strings.HasSuffix(string(bytes), "\r\n"))
		all = append(all, bytes...)
		seen[e.Request.Command] = true
	}
	require.Equal(t, someRequests(), readEverySplit2(t, ofRequests(t, 0), all))
	for m := range protocol.Messages(2) {
		require.Equal(t, m.From == protocol.Collector, m.Command != 0)
		require.Equal(t, m.From == protocol.Ingress, m.Code != 0)
		require.True(t, m.Command == 0 || seen[m.Command], "%v", m.Command)
	}
}

func TestParser2AliasesTheBuffer(t *testing.T) {
	var p protocol.Parser2
	buf := protocol.AppendBatch2(nil, 1, 1, []byte("\x01a"))
	req, n, err := p.Next(buf)
	require.NoError(t, err)
	require.Equal(t, len(buf), n)
	copy(buf, bytes.Repeat([]byte("z"), len(buf)))
	require.Equal(t, "zz", string(req.Payload))
}

// A reader grows its buffer once: as soon as the header is here, it knows how much is coming.
func TestNeed(t *testing.T) {
	var p protocol.Parser2
	batch := protocol.AppendBatch2(nil, 1, 1, protocol.AppendRecord(nil, make([]byte, 1<<20)))
	header := bytes.IndexByte(batch, '\n') + 1
	for _, here := range []int{0, header - 1, header, header + 1, len(batch) - 2, len(batch) - 1} {
		req, n, err := p.Next(batch[:here])
		require.NoError(t, err)
		require.Zero(t, n)
		require.Zero(t, req)
		if here < header {
			require.Zero(t, p.Need())
		} else {
			require.Equal(t, len(batch), p.Need())
		}
	}
	req, n, err := p.Next(batch)
	require.NoError(t, err)
	require.Equal(t, len(batch), n)
	require.NoError(t, protocol.CheckRecords(req.Payload, req.Records))
	require.Zero(t, p.Need())
}

// 100 MB that are refused cost one error and no memory, in pieces of 32 KiB.
func TestParser2ThrowsAwayWithoutMemory(t *testing.T) {
	const size = 100 << 20
	p := protocol.Parser2{MaxBatch: 1 << 10}
	_, n, err := p.Next([]byte(fmt.Sprintf("BATCH 5 1 %d\r\n", size)))
	var bad *protocol.Error
	require.True(t, errors.As(err, &bad))
	require.ErrorIs(t, err, protocol.ErrTooLarge)
	require.Equal(t, "TOO_LARGE: payload of 104857600 bytes at byte 19; allowed: at most 1024 bytes", bad.Error())
	require.Equal(t, []any{protocol.CommandBatch, uint64(5), size, false, 21}, []any{bad.Command, bad.ID, bad.Size, bad.Closes, n})
	piece := bytes.Repeat([]byte("x"), 32<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for sent := 0; sent < size; sent += len(piece) {
		if req, n, err := p.Next(piece); n != len(piece) || err != nil || req.Command != 0 || p.Need() != 0 {
			t.Fatalf("%v %d %v", req.Command, n, err)
		}
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<16))
	req, n, err := p.Next([]byte("\r\nPING\r\n"))
	require.NoError(t, err)
	require.Equal(t, protocol.CommandPing, req.Command)
	require.Equal(t, 8, n)
}

// The limit is at most what a header can tell, and has a default.
func TestParser2Limits(t *testing.T) {
	for max, refused := range map[int]int{0: protocol.DefaultMaxBatch + 1, -1: protocol.DefaultMaxBatch + 1, 1: 2, 7: 8} {
		p := protocol.Parser2{MaxBatch: max}
		_, n, err := p.Next(fmt.Appendf(nil, "BATCH 1 1 %d\r\n", refused-1))
		require.NoError(t, err)
		require.Zero(t, n)
		p = protocol.Parser2{MaxBatch: max}
		_, _, err = p.Next(fmt.Appendf(nil, "BATCH 1 1 %d\r\n", refused))
		require.ErrorIs(t, err, protocol.ErrTooLarge)
	}
	p := protocol.Parser2{MaxBatch: protocol.MaxCount}
	_, _, err := p.Next([]byte("BATCH 1 1 1073741824\r\n"))
	require.NoError(t, err)
	require.Equal(t, protocol.MaxCount+len("BATCH 1 1 1073741824\r\n")+2, p.Need())
	_, _, err = p.Next([]byte("BATCH 1 1 1073741824\r\nx"))
	require.NoError(t, err)
}

// A peer that sends one byte at a time must not make the parser search the same bytes again and again.
func TestParser2SearchesOnce(t *testing.T) {
	var p protocol.Parser2
	buf := bytes.Repeat([]byte("x"), 64)
	_, _, err := p.Next(buf)
	require.NoError(t, err)
	buf[10] = '\n' // not looked at any more: the caller must leave unused bytes as they are
	_, n, err := p.Next(append(buf, 'y'))
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestDialect2DoesNotAllocate(t *testing.T) {
	var requests, replies []byte
	for _, e := range someRequests()[1:] {
		requests = appendEvent2(requests, e)
	}
	for _, e := range someReplies() {
		if e.Reply.Welcome == nil && e.Reply.Text == "" {
			replies = appendEvent2(replies, e)
		}
	}
	var p protocol.Parser2
	var r protocol.ReplyParser2
	payload := []byte("\x01a")
	buf := make([]byte, 0, 1<<10)
	count := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		count = 0
		for at := 0; at < len(requests); count++ {
			_, n, err := p.Next(requests[at:])
			if err != nil || n == 0 {
				panic("no message")
			}
			at += n
		}
		for at := 0; at < len(replies); count++ {
			_, n, err := r.Next(replies[at:])
			if err != nil || n == 0 {
				panic("no message")
			}
			at += n
		}
		buf = protocol.AppendBatch2(buf[:0], 1, 1, payload)
		buf = protocol.AppendReply2(buf, protocol.Reply2{Code: protocol.CodeAck, Watermark: 1})
		buf = protocol.AppendReply2(buf, protocol.Reply2{Code: protocol.CodeNack, ID: 1, Reason: protocol.CodeStale, Text: "short"})
	}))
	require.Equal(t, 7+10, count)
}

func TestErrorsOfDialect2SayWhatAndWhere(t *testing.T) {
	const members = `"collector":"a","instance":"i","token":"t","first":`
	for header, want := range map[string]string{
		"":                                  "BAD_REQUEST: no message of a collector at byte 0; allowed: HELLO, READY, BATCH, SKIP, PING, PONG or BYE",
		"BATCH 1x 1 1":                      "INVALID_PARAM: not a number that is allowed at byte 7; allowed: a plain decimal from 1 to 9223372036854775807, no sign, no leading zero",
		"BATCH 1 0 1":                       "INVALID_PARAM: not a number that is allowed at byte 8; allowed: a plain decimal from 1 to 1073741824, no sign, no leading zero",
		"BATCH 1 1":                         "BAD_REQUEST: separator missing at byte 9; allowed: a space",
		"PING 1":                            "BAD_REQUEST: more than expected at byte 4; allowed: the end of the line",
		`HELLO {"a":}`:                      "BAD_REQUEST: no JSON object at byte 12; allowed: one JSON object in UTF-8, on the same line",
		"HELLO 1":                           "BAD_REQUEST: no JSON object at byte 6; allowed: one JSON object in UTF-8, on the same line",
		"HELLO null":                        "BAD_REQUEST: no JSON object at byte 6; allowed: one JSON object in UTF-8, on the same line",
		"HELLO {}":                          "BAD_REQUEST: member version is missing at byte 6; allowed: 2",
		`HELLO {"version":3}`:               "VERSION: member version is another one at byte 6; allowed: 2",
		`HELLO {"version":2,"collector":5}`: "INVALID_PARAM: member collector is not what is allowed at byte 6; allowed: a string of 1 to 64 letters, digits, dots, underscores and hyphens, but not dots alone",
		`HELLO {"version":2,"collector":"a","instance":""}`: "INVALID_PARAM: member instance is not what is allowed at byte 6; allowed: a string of 1 to 64 printable ASCII characters",
		`HELLO {"version":2,` + members + `-1}`:             "INVALID_PARAM: member first is not what is allowed at byte 6; allowed: a plain decimal from 0 to 9223372036854775807",
		`HELLO {"version":2,` + members + `1,"next":0}`:     "INVALID_PARAM: members first and next disagree at byte 6; allowed: first from 1 to next, or both 0",
	} {
		got := readEverySplit2(t, ofRequests(t, 0), []byte(header+"\r\nPING\r\n"))
		require.Len(t, got, 1, header)
		require.Equal(t, want, got[0].Bad.Error())
	}
	p := requests2(t, 0)
	got := read2(t, p, []byte("BATCH 3 1 2\r\n\x01abc"))
	require.Equal(t, "BAD_REQUEST: no line ending behind the payload at byte 2; allowed: CRLF or LF behind as many bytes as the header tells", got[0].Bad.Error())
	_, _, err := new(protocol.Parser2).Next([]byte("HELLO {\"version\":3}\n"))
	require.ErrorIs(t, err, protocol.ErrVersion)
}

// No error and no printed HELLO shows a token or a payload, whatever the collector got wrong (B45).
func TestDialect2HidesSecretsB45(t *testing.T) {
	long := strings.Repeat("SECRET", protocol.MaxToken)
	for _, header := range []string{"SECRET", "SECRET 1", "HELLO SECRET", `HELLO {"version":2,"token":"SECRET"`, `HELLO {"version":"SECRET"}`,
		`HELLO {"version":2,"collector":"a","instance":"i","token":["SECRET"],"first":0,"next":0}`,
		`HELLO {"version":2,"collector":"a","instance":"i","token":"` + long[:protocol.MaxToken+1] + `","first":0,"next":0}`,
		`HELLO {"version":2,"collector":"SECRET TOKEN"}`, "BATCH SECRET 1 1", "READY SECRET", "BATCH 1 1 2\r\nSECRET"} {
		got := read2(t, requests2(t, 0), []byte(header+"\r\n"))
		require.Len(t, got, 1, header)
		require.True(t, got[0].Refused, header)
		require.NotContains(t, got[0].Bad.Error(), "SECRET", header)
	}
	h := protocol.Hello{Collector: "a", Instance: "i", Token: "SECRET"}
	require.Equal(t, "a i, a i, a i, a i", fmt.Sprintf("%v, %+v, %#v, %v", h, h, h, &h))
}
