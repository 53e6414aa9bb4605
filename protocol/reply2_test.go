package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

func someWelcome() *protocol.Welcome {
	return &protocol.Welcome{Epoch: 3, Committed: 41, Received: protocol.MaxID, Missing: []protocol.Range{{First: 42, Last: 43}, {First: 50, Last: 50}},
		Lost: []protocol.Range{{First: 7, Last: 9}}, WindowBatches: 1024, WindowBytes: 64 << 20, MaxBatchBytes: 4 << 20, Idle: time.Minute,
		Server: "tidemarkd <1>"}
}

// Each message of the ingress as an event, with each reason.
func someReplies() []event2 {
	replies := []protocol.Reply2{
		{Code: protocol.CodeWelcome, Welcome: someWelcome()},
		{Code: protocol.CodeAck, Watermark: protocol.MaxID},
		{Code: protocol.CodeWindow, Batches: 1, Bytes: protocol.MaxID},
		{Code: protocol.CodeResend, ID: 42, Wait: 250 * time.Millisecond},
		{Code: protocol.CodeResend, ID: protocol.MaxID},
		{Code: protocol.CodePing}, {Code: protocol.CodePong}, {Code: protocol.CodeBye},
		{Code: protocol.CodeGoaway, Wait: time.Second, Text: "stopping"}, {Code: protocol.CodeGoaway},
		{Code: protocol.CodeNack, ID: 1, Reason: protocol.CodeTooLarge}, {Code: protocol.CodeError, Reason: protocol.CodeFenced},
	}
	for _, reason := range []protocol.Code{protocol.CodeConflict, protocol.CodeStale, protocol.CodeTooLarge, protocol.CodeDecodeFailed} {
		replies = append(replies, protocol.Reply2{Code: protocol.CodeNack, ID: 46, Reason: reason, Text: "text for people"})
	}
	for _, reason := range []protocol.Code{protocol.CodeAuthFailed, protocol.CodeVersion, protocol.CodeRejected, protocol.CodeRetired,
		protocol.CodeForgot, protocol.CodeFirst, protocol.CodeFenced, protocol.CodeWindow, protocol.CodeIdle, protocol.CodeTooLarge,
		protocol.CodeBadRequest, protocol.CodeInvalidParam} {
		replies = append(replies, protocol.Reply2{Code: protocol.CodeError, Reason: reason, Text: " text: für people"})
	}
	var events []event2
	for _, r := range replies {
		events = append(events, event2{Reply: r})
	}
	return events
}

func TestReplies2ComeBack(t *testing.T) {
	var all []byte
	seen := map[protocol.Code]bool{}
	make := func() next { return replies2(t) }
	for _, e := range someReplies() {
		bytes := appendEvent2([]byte("x"), e)[1:]
		require.Equal(t, []event2{e}, readEverySplit2(t, make, bytes))
		require.True(t, strings.HasSuffix(string(bytes), "\r\n"))
		all = append(all, bytes...)
		seen[e.Reply.Code] = true
	}
	require.Equal(t, someReplies(), readEverySplit2(t, make, all))
	for m := range protocol.Messages(2) {
		require.Equal(t, m.Code == protocol.CodeBye || m.Code == protocol.CodeError, m.Closes)
		require.True(t, m.Code == 0 || seen[m.Code], "%v", m.Code)
	}
}

// However many ranges there are, WELCOME fits its limit, and no missing number is left out.
func TestWelcomeIsBounded(t *testing.T) {
	w := someWelcome()
	w.Missing, w.Lost = nil, nil
	for first := uint64(protocol.MaxID - 2*5000); first < protocol.MaxID; first += 2 {
		w.Missing = append(w.Missing, protocol.Range{First: first, Last: first})
		w.Lost = append(w.Lost, protocol.Range{First: first, Last: first})
	}
	w.Server = strings.Repeat("\x00", protocol.MaxText)
	w.Committed, w.Epoch, w.WindowBatches, w.WindowBytes = protocol.MaxID, protocol.MaxID, protocol.MaxID, protocol.MaxID
	line := protocol.AppendReply2(nil, protocol.Reply2{Code: protocol.CodeWelcome, Welcome: w})
	require.Less(t, len(line), protocol.MaxJSON)
	got := read2(t, replies2(t), line)
	require.Len(t, got, 1)
	missing, lost := got[0].Reply.Welcome.Missing, got[0].Reply.Welcome.Lost
	require.Len(t, missing, protocol.MaxRanges)
	last := protocol.MaxRanges - 1
	require.Equal(t, w.Missing[:last], missing[:last])
	require.Equal(t, protocol.Range{First: w.Missing[last].First, Last: w.Missing[len(w.Missing)-1].Last}, missing[last])
	require.Equal(t, w.Lost[:protocol.MaxRanges], lost)
}

func TestTextsAreShortAndPlain(t *testing.T) {
	of := func(text string) string {
		line := protocol.AppendReply2(nil, protocol.Reply2{Code: protocol.CodeError, Reason: protocol.CodeIdle, Text: text})
		return strings.TrimSuffix(strings.TrimPrefix(string(line), "ERROR IDLE"), "\r\n")
	}
	require.Equal(t, "", of(""))
	require.Equal(t, " a  b c [2J", of("a\r\nb\tc\x1b[2J"))
	require.Equal(t, " a\ufffdb", of("a\xffb"))
	require.Equal(t, " "+strings.Repeat("x", protocol.MaxText), of(strings.Repeat("x", protocol.MaxText+1)))
	require.Equal(t, " "+strings.Repeat("x", protocol.MaxText-1), of(strings.Repeat("x", protocol.MaxText-1)+"ü"), "no half of a letter")
}

func TestWaitsOfDialect2AreRoundedAndBounded(t *testing.T) {
	for wait, want := range map[time.Duration]string{-time.Second: "0", 0: "0", 1: "1", time.Millisecond + 1: "2", protocol.MaxWait + 1: "2147483647"} {
		require.Equal(t, "RESEND 1 "+want+"\r\n", string(protocol.AppendReply2(nil, protocol.Reply2{Code: protocol.CodeResend, ID: 1, Wait: wait})))
	}
	w := someWelcome()
	w.Idle = 0
	require.Contains(t, string(protocol.AppendReply2(nil, protocol.Reply2{Code: protocol.CodeWelcome, Welcome: w})), `"idle_ms":1,`)
}

func TestAppendersOfDialect2RefuseWhatCannotBeRead(t *testing.T) {
	const id = "protocol: number 0 is not from 1 to 9223372036854775807"
	const count = "protocol: number 0 is not from 1 to 1073741824"
	require.PanicsWithValue(t, id, func() { protocol.AppendSkip2(nil, 0) })
	require.PanicsWithValue(t, id, func() { protocol.AppendBatch2(nil, 0, 1, []byte("\x00")) })
	require.PanicsWithValue(t, count, func() { protocol.AppendBatch2(nil, 1, 0, []byte("\x00")) })
	require.PanicsWithValue(t, "protocol: count -1 is below 0", func() { protocol.AppendBatch2(nil, 1, -1, []byte("\x00")) })
	require.PanicsWithValue(t, count, func() { protocol.AppendBatch2(nil, 1, 1, nil) })
	require.PanicsWithValue(t, "protocol: INVALID_PARAM: member collector is not what is allowed at byte 6; allowed: a string of 1 to 64 letters, digits, "+
		"dots, underscores and hyphens, but not dots alone", func() { protocol.AppendHello2(nil, &protocol.Hello{Instance: "i"}) })
	require.PanicsWithValue(t, "protocol: a string that is not UTF-8 cannot be sent in JSON", func() {
		protocol.AppendHello2(nil, &protocol.Hello{Collector: "a", Instance: "i", Token: "\xff"})
	})
	for _, change := range []func(w *protocol.Welcome){
		func(w *protocol.Welcome) { w.WindowBatches = 0 },
		func(w *protocol.Welcome) { w.MaxBatchBytes = -1 },
		func(w *protocol.Welcome) { w.Missing[0].First = 0 },
		func(w *protocol.Welcome) { w.Committed, w.Received = 2, 1 },
		func(w *protocol.Welcome) { w.Server = strings.Repeat("x", protocol.MaxText+1) },
	} {
		w := someWelcome()
		change(w)
		require.Panics(t, func() { protocol.AppendReply2(nil, protocol.Reply2{Code: protocol.CodeWelcome, Welcome: w}) })
	}
	for _, r := range []protocol.Reply2{{Code: protocol.CodeAck}, {Code: protocol.CodeWindow, Batches: 1}, {Code: protocol.CodeResend},
		{Code: protocol.CodeNack, ID: 1}, {Code: protocol.CodeError}} {
		require.Panics(t, func() { protocol.AppendReply2(nil, r) }, "%v", r.Code)
	}
	require.PanicsWithValue(t, "protocol: FENCED is no reason for this message", func() {
		protocol.AppendReply2(nil, protocol.Reply2{Code: protocol.CodeNack, ID: 1, Reason: protocol.CodeFenced})
	})
	require.PanicsWithValue(t, "protocol: no message of the ingress has code 4", func() {
		protocol.AppendReply2(nil, protocol.Reply2{Code: protocol.CodeReceived})
	})
}
