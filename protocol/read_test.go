package protocol_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// An event is what one call of Next gave: a request or a refusal, without any alias to the buffer.
type event struct {
	Command        protocol.Command
	ID             uint64
	Token, Payload string
	HasToken       bool // an empty token is not the same as none
	HasPayload     bool
	Refused        protocol.Code
	Offset         int
	Message        string
}

// read runs a parser as a connection does: what a call leaves unused stays in front of the next piece.
func read(t testing.TB, maxLine int, pieces ...[]byte) []event {
	t.Helper()
	p := protocol.Parser{MaxLine: maxLine}
	limit := maxLine
	if limit == 0 {
		limit = protocol.DefaultMaxLine
	}
	var events []event
	var buf []byte
	for _, piece := range pieces {
		buf = append(buf, piece...)
		for {
			req, n, err := p.Next(buf)
			require.LessOrEqual(t, n, len(buf))
			buf = buf[n:]
			if err == nil && req.Command == 0 {
				break
			}
			require.NotZero(t, n, "an event without progress")
			events = append(events, toEvent(t, req, err))
		}
		require.LessOrEqual(t, len(buf), limit+1, "a buffer of MaxLine+2 bytes would be stuck")
	}
	return events
}

func toEvent(t testing.TB, req protocol.Request, err error) event {
	if err == nil {
		return event{Command: req.Command, ID: req.ID, Token: string(req.Token), Payload: string(req.Payload),
			HasToken: req.Token != nil, HasPayload: req.Payload != nil}
	}
	var bad *protocol.Error
	require.True(t, errors.As(err, &bad), "%T", err)
	require.Zero(t, req)
	return event{Command: bad.Command, ID: bad.ID, Refused: bad.Code, Offset: bad.Offset, Message: bad.Error()}
}

// readEverySplit reads the bytes whole, in every two pieces, and one by one, and demands the same each time.
func readEverySplit(t testing.TB, maxLine int, input []byte) []event {
	t.Helper()
	whole := read(t, maxLine, input)
	for i := range input {
		require.Equal(t, whole, read(t, maxLine, input[:i], input[i:]), "split at %d of %q", i, input)
	}
	require.Equal(t, whole, read(t, maxLine, single(input)...), "byte by byte: %q", input)
	return whole
}

// single cuts the bytes into pieces of one.
func single(input []byte) [][]byte {
	var pieces [][]byte
	for i := range input {
		pieces = append(pieces, input[i:i+1])
	}
	return pieces
}
