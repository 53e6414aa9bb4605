package fuzz

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

func FuzzReplyAck(f *testing.F)           { fuzzReply(f, protocol.CodeAck) }
func FuzzReplyAuthFailed(f *testing.F)    { fuzzReply(f, protocol.CodeAuthFailed) }
func FuzzReplyRejected(f *testing.F)      { fuzzReply(f, protocol.CodeRejected) }
func FuzzReplyReceived(f *testing.F)      { fuzzReply(f, protocol.CodeReceived) }
func FuzzReplyQueueFull(f *testing.F)     { fuzzReply(f, protocol.CodeQueueFull) }
func FuzzReplyRetry(f *testing.F)         { fuzzReply(f, protocol.CodeRetry) }
func FuzzReplyConflict(f *testing.F)      { fuzzReply(f, protocol.CodeConflict) }
func FuzzReplyStale(f *testing.F)         { fuzzReply(f, protocol.CodeStale) }
func FuzzReplyTooLarge(f *testing.F)      { fuzzReply(f, protocol.CodeTooLarge) }
func FuzzReplyDecryptFailed(f *testing.F) { fuzzReply(f, protocol.CodeDecryptFailed) }
func FuzzReplyDecodeFailed(f *testing.F)  { fuzzReply(f, protocol.CodeDecodeFailed) }
func FuzzReplyBadRequest(f *testing.F)    { fuzzReply(f, protocol.CodeBadRequest) }
func FuzzReplyInvalidParam(f *testing.F)  { fuzzReply(f, protocol.CodeInvalidParam) }
func FuzzReplyPending(f *testing.F)       { fuzzReply(f, protocol.CodePending) }
func FuzzReplyResend(f *testing.F)        { fuzzReply(f, protocol.CodeResend) }

// carried is what is left of a reply on the wire: the fields that its code carries, a wait in whole milliseconds.
func carried(r protocol.Reply) protocol.Reply {
	wire := protocol.Reply{Code: r.Code}
	switch r.Code {
	case protocol.CodeAck:
		wire.Watermark = r.Watermark
	case protocol.CodeQueueFull:
		const ms = time.Millisecond
		wire.Wait = min(max(r.Wait, ms), protocol.MaxWait)
		if part := wire.Wait % ms; part > 0 {
			wire.Wait += ms - part
		}
	}
	return wire
}

// fuzzReply: a reply is read with the fields it was given; and what begins with its word is refused, or written back
// byte for byte.
func fuzzReply(f *testing.F, code protocol.Code) {
	for i, wait := range []time.Duration{math.MinInt64, 0, 1, time.Millisecond, time.Second + 1, protocol.MaxWait, math.MaxInt64} {
		f.Add(int64(wait), numbers[i], []byte{})
	}
	for _, v := range loadVectors(f).Replies {
		if tail, ok := strings.CutPrefix(v.Input, code.String()); ok {
			f.Add(int64(time.Second), uint64(1), []byte(tail))
		}
	}
	for _, tail := range []string{":1", ":01", ":0", ":-1", ":1 ", ":1:2", ":9223372036854775808", ":99999999999999999999", "\r\n", ":7\r\n", "\r\r\n", "S"} {
		f.Add(int64(time.Second), uint64(1), []byte(tail))
	}
	f.Fuzz(func(t *testing.T, wait int64, watermark uint64, tail []byte) {
		given := protocol.Reply{Code: code, Wait: time.Duration(wait), Watermark: watermark}
		if want := carried(given); want.Watermark > protocol.MaxID {
			require.Panics(t, func() { protocol.AppendReply(nil, given) })
		} else {
			got, err := protocol.ParseReply(protocol.AppendReply(nil, given))
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		readReply(t, append([]byte(code.String()), tail...))
	})
}

// readReply: a line is refused with the place of the trouble, or it is the one that the reply is written as. A refusal is
// the error and the text of what is allowed, however long the line.
func readReply(t testing.TB, line []byte) {
	t.Helper()
	bounded(t, len(line), 0, 1<<10, func() { protocol.ParseReply(line) })
	r, err := protocol.ParseReply(line)
	text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	if err == nil {
		require.Equal(t, string(text)+"\n", string(protocol.AppendReply(nil, r)))
		return
	}
	var bad *protocol.Error
	require.ErrorAs(t, err, &bad)
	require.ErrorIs(t, err, protocol.ErrReply)
	require.Zero(t, r)
	require.Zero(t, bad.Code)
	require.GreaterOrEqual(t, bad.Offset, 0)
	require.LessOrEqual(t, bad.Offset, len(text))
}

// FuzzReply: any line, also one that begins with no reply's word.
func FuzzReply(f *testing.F) {
	for _, v := range loadVectors(f).Replies {
		f.Add([]byte(v.Input))
	}
	f.Fuzz(func(t *testing.T, line []byte) { readReply(t, line) })
}
