package protocol_test

import (
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// An event2 is what one call of Next gave in dialect 2: a message of either side or a refusal, without any alias to the
// buffer. Hello and Welcome are copies: an event2 is compared by its contents.
type event2 struct {
	Request protocol.Request2
	Payload string
	Reply   protocol.Reply2
	Refused bool
	Bad     protocol.Error
}

// next calls one parser and yields what it gave, and whether that is an event.
type next func(buf []byte) (e event2, n int, event bool)

func refused2(t testing.TB, err error) event2 {
	var bad *protocol.Error
	require.True(t, errors.As(err, &bad), "%T", err)
	return event2{Refused: true, Bad: *bad}
}

func requests2(t testing.TB, maxBatch int) next {
	p := &protocol.Parser2{MaxBatch: maxBatch}
	if maxBatch == 0 {
		maxBatch = protocol.DefaultMaxBatch
	}
	enough := max(maxBatch+protocol.MaxHeader+4, protocol.MaxJSON+8)
	return func(buf []byte) (event2, int, bool) {
		req, n, err := p.Next(buf)
		if err != nil {
			require.Zero(t, req)
			return refused2(t, err), n, true
		}
		if req.Command == 0 {
			require.Zero(t, req)
			require.Less(t, len(buf)-n, enough, "a buffer of that size would be stuck")
			require.LessOrEqual(t, p.Need(), enough)
			require.True(t, p.Need() == 0 || len(buf)-n < p.Need(), "what it needs is here, and yet it gives nothing")
		} else {
			require.Zero(t, p.Need())
		}
		require.Equal(t, len(req.Payload), cap(req.Payload), "appending to a payload must not reach the next message")
		e := event2{Request: req, Payload: string(req.Payload)}
		e.Request.Payload = nil
		return e, n, req.Command != 0
	}
}

func replies2(t testing.TB) next {
	p := new(protocol.ReplyParser2)
	return func(buf []byte) (event2, int, bool) {
		r, n, err := p.Next(buf)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrReply)
			require.Zero(t, r)
			return refused2(t, err), n, true
		}
		require.True(t, r.Code != 0 || len(buf)-n < protocol.MaxJSON+10, "a buffer of that size would be stuck")
		return event2{Reply: r}, n, r.Code != 0
	}
}

// read2 runs a parser as a connection does: what a call leaves unused stays in front of the next piece. Behind an error
// that closes, each piece must be used up and give the same error.
func read2(t testing.TB, p next, pieces ...[]byte) []event2 {
	t.Helper()
	var events []event2
	var buf []byte
	for _, piece := range pieces {
		buf = append(buf, piece...)
		for {
			e, n, event := p(buf)
			require.LessOrEqual(t, n, len(buf))
			buf = buf[n:]
			if !event {
				break
			}
			if last := len(events) - 1; last >= 0 && events[last].Bad.Closes {
				require.Equal(t, events[last], e)
				require.Empty(t, buf)
				break
			}
			require.NotZero(t, n, "an event without progress")
			events = append(events, e)
		}
	}
	return events
}

// readEverySplit2 reads the bytes whole, in every two pieces, and one by one, and demands the same each time.
func readEverySplit2(t testing.TB, make func() next, input []byte) []event2 {
	t.Helper()
	whole := read2(t, make(), input)
	for i := range input {
		require.Equal(t, whole, read2(t, make(), input[:i], input[i:]), "split at %d of %q", i, input)
	}
	require.Equal(t, whole, read2(t, make(), single(input)...), "byte by byte: %q", input)
	return whole
}

// appendEvent2 writes the message that an event was read from.
func appendEvent2(dst []byte, e event2) []byte {
	r := e.Request
	switch r.Command {
	case 0:
		return protocol.AppendReply2(dst, e.Reply)
	case protocol.CommandHello:
		return protocol.AppendHello2(dst, r.Hello)
	case protocol.CommandReady:
		return protocol.AppendReady2(dst)
	case protocol.CommandBatch:
		return protocol.AppendBatch2(dst, r.ID, r.Records, []byte(e.Payload))
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

// A headerVector is one entry of requests2 or replies2 in the vectors.
type headerVector struct {
	Name     string         `json:"name"`
	MaxBatch int            `json:"max_batch"`
	Input    string         `json:"input_hex"`
	Want     []headerWanted `json:"want"`
}

type headerWanted struct {
	Message   string `json:"message"`
	ID        string `json:"id"`
	Records   string `json:"records"`
	Payload   string `json:"payload_hex"`
	Watermark string `json:"watermark"`
	WaitMS    string `json:"wait_ms"`
	Batches   string `json:"batches"`
	Bytes     string `json:"bytes"`
	Reason    string `json:"reason"`
	Text      string `json:"text"`
	Hello     *struct {
		Collector, Instance, Token, First, Next string
	} `json:"hello"`
	Welcome *struct {
		Epoch, Committed, Received string
		Missing, Lost              [][]string
		WindowBatches              string `json:"window_batches"`
		WindowBytes                string `json:"window_bytes"`
		MaxBatchBytes              string `json:"max_batch_bytes"`
		IdleMS                     string `json:"idle_ms"`
		Server                     string
	} `json:"welcome"`
	Refused string `json:"refused"`
	Size    int    `json:"size"`
	Closes  bool   `json:"closes"`
}

func TestVectorsOfDialect2(t *testing.T) {
	v := loadVectors(t)
	require.NotEmpty(t, v.Requests2)
	require.NotEmpty(t, v.Replies2)
	seen := map[string]bool{}
	check := func(t *testing.T, v headerVector, make func() next) {
		got := readEverySplit2(t, make, unhex(t, v.Input))
		require.Len(t, got, len(v.Want))
		for i, w := range v.Want {
			requireWanted(t, w, got[i])
			if seen[w.Message] = true; w.Refused == "" && (w.Reason != "" || got[i].Reply.Code != protocol.CodeNack && got[i].Reply.Code != protocol.CodeError) {
				require.Equal(t, got[i:i+1], read2(t, make(), appendEvent2(nil, got[i])), "what was read comes back")
			}
		}
	}
	for _, v := range v.Requests2 {
		t.Run("request/"+v.Name, func(t *testing.T) { check(t, v, func() next { return requests2(t, v.MaxBatch) }) })
	}
	for _, v := range v.Replies2 {
		t.Run("reply/"+v.Name, func(t *testing.T) { check(t, v, func() next { return replies2(t) }) })
	}
	for m := range protocol.Messages(2) {
		word := m.Code.String()
		if m.Code == 0 {
			word = m.Command.String()
		}
		require.True(t, seen[word], "no vector has %s", word)
	}
}

func requireWanted(t *testing.T, w headerWanted, got event2) {
	t.Helper()
	req, r := got.Request, got.Reply
	if w.Refused != "" {
		require.True(t, got.Refused)
		code := got.Bad.Code.String()
		if code == "NONE" {
			code = "UNREADABLE"
		}
		require.Equal(t, w.Refused, code)
		require.Equal(t, w.Message, word(got.Bad.Command, 0))
		require.Equal(t, number(t, w.ID), got.Bad.ID)
		require.Equal(t, w.Size, got.Bad.Size)
		require.Equal(t, w.Closes, got.Bad.Closes)
		return
	}
	require.False(t, got.Refused, "%v", &got.Bad)
	require.Equal(t, w.Message, word(req.Command, r.Code))
	require.Equal(t, number(t, w.ID), max(req.ID, r.ID))
	require.Equal(t, number(t, w.Records), uint64(req.Records))
	require.Equal(t, w.Payload, hex.EncodeToString([]byte(got.Payload)))
	require.Equal(t, number(t, w.Watermark), r.Watermark)
	require.Equal(t, number(t, w.WaitMS), uint64(r.Wait.Milliseconds()))
	require.Equal(t, number(t, w.Batches), r.Batches)
	require.Equal(t, number(t, w.Bytes), r.Bytes)
	require.Equal(t, w.Reason, word(0, r.Reason))
	require.Equal(t, w.Text, r.Text)
	require.Equal(t, w.Hello != nil, req.Hello != nil)
	if h := w.Hello; h != nil {
		require.Equal(t, protocol.Hello{Collector: h.Collector, Instance: h.Instance, Token: h.Token,
			First: number(t, h.First), Next: number(t, h.Next)}, *req.Hello)
	}
	require.Equal(t, w.Welcome != nil, r.Welcome != nil)
	if h := w.Welcome; h != nil {
		require.Equal(t, []uint64{number(t, h.Epoch), number(t, h.Committed), number(t, h.Received), number(t, h.WindowBatches),
			number(t, h.WindowBytes), number(t, h.MaxBatchBytes), number(t, h.IdleMS)},
			[]uint64{r.Welcome.Epoch, r.Welcome.Committed, r.Welcome.Received, r.Welcome.WindowBatches,
				r.Welcome.WindowBytes, uint64(r.Welcome.MaxBatchBytes), uint64(r.Welcome.Idle.Milliseconds())})
		require.Equal(t, ranges(t, h.Missing), r.Welcome.Missing)
		require.Equal(t, ranges(t, h.Lost), r.Welcome.Lost)
		require.Equal(t, h.Server, r.Welcome.Server)
	}
}

// word is what a message begins with; "" when there is none.
func word(command protocol.Command, code protocol.Code) string {
	words := slices.DeleteFunc([]string{command.String(), code.String(), ""}, func(w string) bool { return w == "NONE" })
	return words[0]
}

func ranges(t *testing.T, pairs [][]string) []protocol.Range {
	var all []protocol.Range
	for _, p := range pairs {
		all = append(all, protocol.Range{First: number(t, p[0]), Last: number(t, p[1])})
	}
	return all
}
