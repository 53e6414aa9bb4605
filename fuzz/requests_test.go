package fuzz

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// event is what one call of Next gave: a request that aliases nothing, or a refusal.
type event struct {
	request protocol.Request
	refused *protocol.Error
}

// read runs a parser as a connection does: what a call leaves unused stays in front of the next piece.
func read(t testing.TB, maxLine int, pieces ...[]byte) (events []event) {
	t.Helper()
	p := protocol.Parser{MaxLine: maxLine}
	var buf []byte
	for _, piece := range pieces {
		buf = append(buf, piece...)
		for {
			req, n, err := p.Next(buf)
			buf = buf[n:]
			if err == nil && req.Command == 0 {
				break
			}
			if n == 0 { // asked byte by byte: require would be most of the time
				t.Fatal("an event without progress")
			}
			events = append(events, toEvent(t, req, err))
		}
		if maxLine > 0 && len(buf) > maxLine+1 {
			t.Fatalf("%d bytes wait: a buffer of MaxLine+2 would be stuck", len(buf))
		}
	}
	return events
}

func toEvent(t testing.TB, req protocol.Request, err error) event {
	if err == nil {
		req.Token, req.Payload = bytes.Clone(req.Token), bytes.Clone(req.Payload)
		return event{request: req}
	}
	var bad *protocol.Error
	require.ErrorAs(t, err, &bad)
	require.Zero(t, req)
	require.NotZero(t, bad.Code)
	return event{refused: bad}
}

// readBounded reads the bytes at once and measures it. A good line costs nothing. The dearest is the shortest bad one:
// an empty line is 1 byte with its LF, and its refusal is one protocol.Error of 64; where text is put together, as for
// a bad number, the refusal is under 400 and the line has at least 12 bytes.
func readBounded(t testing.TB, maxLine int, input []byte) {
	t.Helper()
	bounded(t, len(input), 64, 1<<10, func() {
		p := protocol.Parser{MaxLine: maxLine}
		for buf := input; ; {
			req, n, err := p.Next(buf)
			if buf = buf[n:]; err == nil && req.Command == 0 {
				return
			}
		}
	})
}

// readAnyway reads the bytes whole, in pieces and one by one, and demands the same each time; and that what is good is
// written back as what it was.
func readAnyway(t testing.TB, maxLine int, input []byte, d *draw) []event {
	t.Helper()
	whole := read(t, maxLine, input)
	require.Equal(t, whole, read(t, maxLine, d.pieces(input)...), "in pieces: %q", input)
	if len(input) < 1<<9 {
		var single [][]byte
		for i := range input {
			single = append(single, input[i:i+1])
		}
		require.Equal(t, whole, read(t, maxLine, single...), "byte by byte: %q", input)
	}
	readBounded(t, maxLine, input)
	for _, e := range whole {
		if e.refused == nil {
			require.Equal(t, []event{e}, read(t, 0, appendRequest(nil, e.request)))
		}
	}
	return whole
}

func appendRequest(dst []byte, r protocol.Request) []byte {
	switch r.Command {
	case protocol.CommandAuth:
		return protocol.AppendAuth(dst, string(r.Token))
	case protocol.CommandBatch:
		return protocol.AppendBatch(dst, r.ID, r.Payload)
	default:
		return protocol.AppendCommit(dst, r.ID)
	}
}

// checkRequest is the property of each request: among others it is read with the fields it was given, however the
// bytes are split, and with other bytes in it the whole still reads as the pieces do.
func checkRequest(t testing.TB, r protocol.Request, choices []byte) {
	t.Helper()
	d := &draw{choices}
	var stream []byte
	var want []event
	for _, next := range []protocol.Request{
		{Command: protocol.CommandAuth, Token: []byte("to:ken")}, r,
		{Command: protocol.CommandBatch, ID: 7, Payload: []byte("__COMMIT__:1\r")}, r,
		{Command: protocol.CommandCommit, ID: 9}, r,
	} {
		stream = appendRequest(stream, next)
		want = append(want, event{request: next})
	}
	require.Equal(t, want, readAnyway(t, 0, stream, d))
	readAnyway(t, d.below(2*len(stream)), d.change(stream), d)
}

// FuzzAuth: see checkRequest. A token with an LF is never written.
func FuzzAuth(f *testing.F) {
	for _, token := range []string{"", "tok-A", "to:k:en", "tok-A ", "\r", "__BATCH__:1:", "one\ntwo", "\xff\x00"} {
		f.Add(token, []byte{0, 3, 0, 5, 0, 12, 0, 30, 0, 2, 0, 9, 1, '\n', 0, 40, 0, '\r'})
	}
	f.Fuzz(func(t *testing.T, token string, choices []byte) {
		if strings.Contains(token, "\n") {
			require.Panics(t, func() { protocol.AppendAuth(nil, token) })
			token = strings.ReplaceAll(token, "\n", "\r")
		}
		checkRequest(t, protocol.Request{Command: protocol.CommandAuth, Token: []byte(token)}, choices)
	})
}

// numbers are the edges of what a batch can be numbered.
var numbers = []uint64{0, 1, 9, 10, protocol.MaxID - 1, protocol.MaxID, protocol.MaxID + 1, 1<<64 - 1}

// toID makes any number one that can be sent, and demands that the others are never written.
func toID(t testing.TB, id uint64, write func(uint64)) uint64 {
	t.Helper()
	if id < 1 || id > protocol.MaxID {
		require.Panics(t, func() { write(id) })
	}
	return max(id&protocol.MaxID, 1)
}

// FuzzBatch: see checkRequest. A payload with an LF, or a number out of range, is never written.
func FuzzBatch(f *testing.F) {
	for i, id := range numbers {
		payload := []string{"", "a", "a:b::c:", "\r", "x\r\r", "__COMMIT__:1", "one\ntwo", "\xff\x00"}[i]
		f.Add(id, []byte(payload), []byte{0, 2, 0, byte(i), 0, 50, 0, 30, 0, 3, 0, byte(20 + i), byte(i), ':', 0, 40, 1, '0'})
	}
	f.Fuzz(func(t *testing.T, id uint64, payload, choices []byte) {
		id = toID(t, id, func(id uint64) { protocol.AppendBatch(nil, id, nil) })
		if bytes.Contains(payload, []byte("\n")) {
			require.Panics(t, func() { protocol.AppendBatch(nil, id, payload) })
			payload = bytes.ReplaceAll(payload, []byte("\n"), []byte("\r"))
		}
		checkRequest(t, protocol.Request{Command: protocol.CommandBatch, ID: id, Payload: append([]byte{}, payload...)}, choices)
	})
}

// FuzzCommit: see checkRequest. A number out of range is never written.
func FuzzCommit(f *testing.F) {
	for i, id := range numbers {
		f.Add(id, []byte{0, 4, 0, byte(i), 0, 50, 0, 60, 0, 70, 0, 30, 0, 2, 0, byte(10 + i), byte(i), '-', 0, 40, 2})
	}
	f.Fuzz(func(t *testing.T, id uint64, choices []byte) {
		id = toID(t, id, func(id uint64) { protocol.AppendCommit(nil, id) })
		checkRequest(t, protocol.Request{Command: protocol.CommandCommit, ID: id}, choices)
	})
}

// FuzzParser: any bytes, under any limit of a line.
func FuzzParser(f *testing.F) {
	for _, v := range loadVectors(f).Requests {
		f.Add(unhex(f, v.Input), uint16(v.MaxLine), []byte{0, 2, 0, 7, 0, 27})
	}
	f.Fuzz(func(t *testing.T, input []byte, maxLine uint16, choices []byte) {
		readAnyway(t, int(maxLine), input, &draw{choices}) // 0 is the default limit
	})
}
