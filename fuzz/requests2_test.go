package fuzz

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// event2 is what one call of a parser of dialect 2 gave: a message that aliases nothing, or a refusal.
type event2[M any] struct {
	message M
	refused *protocol.Error
}

// read2 runs a parser as a connection does, up to an error that ends it. Next says whether there was a message, and
// keeps no alias to the buffer.
func read2[M any](t testing.TB, next func([]byte) (M, bool, int, error), pieces ...[]byte) (events []event2[M]) {
	t.Helper()
	var buf []byte
	for _, piece := range pieces {
		buf = append(buf, piece...)
		for {
			message, there, n, err := next(buf)
			buf = buf[n:]
			if err == nil && !there {
				break
			}
			if n == 0 {
				t.Fatal("an event without progress")
			}
			if err == nil {
				events = append(events, event2[M]{message: message})
				continue
			}
			var bad *protocol.Error
			require.ErrorAs(t, err, &bad)
			require.GreaterOrEqual(t, bad.Offset, 0)
			events = append(events, event2[M]{refused: bad})
			if bad.Closes {
				return events
			}
		}
	}
	return events
}

// readRequests2 and readReplies2 begin a connection each.
func readRequests2(t testing.TB, maxBatch int, pieces ...[]byte) []event2[protocol.Request2] {
	p := protocol.Parser2{MaxBatch: maxBatch}
	return read2(t, func(buf []byte) (protocol.Request2, bool, int, error) {
		r, n, err := p.Next(buf)
		r.Payload = bytes.Clone(r.Payload)
		return r, r.Command != 0, n, err
	}, pieces...)
}

func readReplies2(t testing.TB, pieces ...[]byte) []event2[protocol.Reply2] {
	var p protocol.ReplyParser2
	return read2(t, func(buf []byte) (protocol.Reply2, bool, int, error) {
		r, n, err := p.Next(buf)
		return r, r.Code != 0, n, err
	}, pieces...)
}

// readSplit2 demands the same of the bytes whole, in pieces and one by one. The dearest bytes are those of a JSON object
// of many short keys: each takes a place in a map, its name and its value. A refusal is one error with its text. The
// copies that are made here are of the size of the bytes.
func readSplit2[M any](t testing.TB, input []byte, d *draw, read func(...[]byte) []event2[M]) []event2[M] {
	t.Helper()
	whole := read(input)
	bounded(t, len(input), 256, 4<<10, func() { read(input) })
	require.Equal(t, whole, read(d.pieces(input)...), "in pieces: %q", input)
	if len(input) < 1<<9 {
		var single [][]byte
		for i := range input {
			single = append(single, input[i:i+1])
		}
		require.Equal(t, whole, read(single...), "byte by byte: %q", input)
	}
	return whole
}

func appendRequest2(dst []byte, r protocol.Request2) []byte {
	switch r.Command {
	case protocol.CommandHello:
		return protocol.AppendHello2(dst, r.Hello)
	case protocol.CommandReady:
		return protocol.AppendReady2(dst)
	case protocol.CommandBatch:
		return protocol.AppendBatch2(dst, r.ID, r.Records, r.Payload)
	case protocol.CommandSkip:
		return protocol.AppendSkip2(dst, r.ID)
	case protocol.CommandPing:
		return protocol.AppendPing2(dst)
	case protocol.CommandPong:
		return protocol.AppendPong2(dst)
	default:
		return protocol.AppendBye2(dst)
	}
}

// fuzzRequest2 is the property of each message of a collector; see checkRequest. Make gives it fields that can be sent.
func fuzzRequest2(f *testing.F, command protocol.Command, make func(t testing.TB, id uint64, n int, payload []byte, d *draw) protocol.Request2) {
	for i, id := range numbers {
		f.Add(id, i, []byte("a\nb\r\n"[:i%5+1]), []byte{0, byte(i), 0, 3, 0, 9, 0, 40, 0, 2, 0, byte(3 * i), byte(i), 'x', 0, 30, 2})
	}
	f.Add(uint64(1), 1, []byte("payload"), []byte{0, 0, 0, 5, 0, 0, 0, 2, 0, 30, 0, 60}) // batches over the limit
	f.Fuzz(func(t *testing.T, id uint64, n int, payload, choices []byte) {
		d := &draw{choices}
		r := make(t, id, n, payload, d)
		r.Command = command
		batch := protocol.Request2{Command: protocol.CommandBatch, ID: 7, Records: 1, Payload: []byte("\x0cBATCH 8 1 1\n")}
		var stream []byte
		var want []event2[protocol.Request2]
		for _, next := range []protocol.Request2{r, batch, r, {Command: protocol.CommandReady}, r} {
			stream = appendRequest2(stream, next)
			want = append(want, event2[protocol.Request2]{message: next})
		}
		read := func(pieces ...[]byte) []event2[protocol.Request2] { return readRequests2(t, 0, pieces...) }
		require.Equal(t, want, readSplit2(t, stream, d, read))
		maxBatch := 1 + d.below(2*len(stream))
		requireRefused2(t, want, readRequests2(t, maxBatch, d.pieces(stream)...), maxBatch)
		read = func(pieces ...[]byte) []event2[protocol.Request2] { return readRequests2(t, maxBatch, pieces...) }
		for _, e := range readSplit2(t, d.change(stream), d, read) {
			if e.refused == nil {
				require.Equal(t, []event2[protocol.Request2]{e}, readRequests2(t, 0, appendRequest2(nil, e.message)))
			}
		}
	})
}

// requireRefused2: what is over the limit is refused by its number, and everything else is read.
func requireRefused2(t testing.TB, want, got []event2[protocol.Request2], maxBatch int) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		if len(w.message.Payload) <= maxBatch {
			require.Equal(t, w, got[i])
			continue
		}
		require.NotNil(t, got[i].refused)
		require.Equal(t, protocol.CodeTooLarge, got[i].refused.Code)
		require.Equal(t, w.message.ID, got[i].refused.ID)
		require.False(t, got[i].refused.Closes)
	}
}

// bare makes a message without fields.
func bare(testing.TB, uint64, int, []byte, *draw) (r protocol.Request2) { return r }

func FuzzReady2(f *testing.F) { fuzzRequest2(f, protocol.CommandReady, bare) }
func FuzzPing2(f *testing.F)  { fuzzRequest2(f, protocol.CommandPing, bare) }
func FuzzPong2(f *testing.F)  { fuzzRequest2(f, protocol.CommandPong, bare) }
func FuzzBye2(f *testing.F)   { fuzzRequest2(f, protocol.CommandBye, bare) }

func FuzzSkip2(f *testing.F) {
	fuzzRequest2(f, protocol.CommandSkip, func(t testing.TB, id uint64, _ int, _ []byte, _ *draw) protocol.Request2 {
		return protocol.Request2{ID: toID(t, id, func(id uint64) { protocol.AppendSkip2(nil, id) })}
	})
}

// FuzzBatch2: a batch without a record or without a byte is never written.
func FuzzBatch2(f *testing.F) {
	fuzzRequest2(f, protocol.CommandBatch, func(t testing.TB, id uint64, n int, payload []byte, _ *draw) protocol.Request2 {
		id = toID(t, id, func(id uint64) { protocol.AppendBatch2(nil, id, 1, []byte("x")) })
		if n < 1 || n > protocol.MaxCount {
			require.Panics(t, func() { protocol.AppendBatch2(nil, id, n, []byte("x")) })
			n = 1
		}
		if len(payload) == 0 {
			require.Panics(t, func() { protocol.AppendBatch2(nil, id, n, payload) })
			payload = []byte{0}
		}
		return protocol.Request2{ID: id, Records: n, Payload: bytes.Clone(payload)}
	})
}

// FuzzHello2: what can't be read back is never written.
func FuzzHello2(f *testing.F) {
	fuzzRequest2(f, protocol.CommandHello, func(t testing.TB, id uint64, n int, payload []byte, d *draw) protocol.Request2 {
		names := []string{"a", "site-1.door_2", strings.Repeat("n", 64), "a b", "", "..", string(payload)}
		first := id - uint64(d.below(3))
		h := protocol.Hello{Collector: names[d.below(len(names))], Instance: "0f3a", Token: strings.Repeat(string(payload), max(n%64, 1)), First: first, Next: id}
		if panics(func() { protocol.AppendHello2(nil, &h) }) {
			h = protocol.Hello{Collector: "a", Instance: "b", Token: "c<>\"\u2028", First: 1, Next: max(id&protocol.MaxID, 1)}
		}
		return protocol.Request2{Hello: &h}
	})
}
