package protocol_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// codes yields those of dialect 1.
func codes() []protocol.Code {
	var all []protocol.Code
	for m := range protocol.Messages(1) {
		if m.Code != 0 && !slices.Contains(all, m.Code) {
			all = append(all, m.Code)
		}
	}
	return all
}

func TestEveryReplyComesBack(t *testing.T) {
	require.Len(t, codes(), 15)
	for _, code := range codes() {
		r := protocol.Reply{Code: code}
		want := code.String() + "\n"
		if code == protocol.CodeQueueFull {
			r.Wait, want = 500*time.Millisecond, "QUEUE_FULL:500\n"
		}
		line := protocol.AppendReply([]byte("x"), r)
		require.Equal(t, "x"+want, string(line))
		got, err := protocol.ParseReply(line[1:])
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	for _, w := range []uint64{1, 41, protocol.MaxID} {
		r := protocol.Reply{Code: protocol.CodeAck, Watermark: w}
		got, err := protocol.ParseReply(protocol.AppendReply(nil, r))
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
}

func TestReplyErrorHasNoCode(t *testing.T) {
	_, err := protocol.ParseReply([]byte("ACK:x\r\n"))
	var bad *protocol.Error
	require.ErrorAs(t, err, &bad)
	require.Zero(t, bad.Code)
	require.Equal(t, 4, bad.Offset)
	require.ErrorContains(t, err, "unreadable reply: not a number that is allowed at byte 4")
	_, err = protocol.ParseReply([]byte("NO:1"))
	require.EqualError(t, err, "unreadable reply: unknown reply code at byte 0; allowed: a reply code of dialect 1")
	_, err = protocol.ParseReply([]byte("RETRY:1"))
	require.EqualError(t, err, "unreadable reply: more than expected at byte 5; allowed: the end of the line")
}

func TestWaitIsRoundedAndBounded(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		-time.Second:             "1",
		0:                        "1",
		1:                        "1",
		time.Millisecond + 1:     "2",
		1500 * time.Millisecond:  "1500",
		protocol.MaxWait:         "2147483647",
		protocol.MaxWait + 1:     "2147483647",
		time.Duration(1<<63 - 1): "2147483647",
	} {
		require.Equal(t, "QUEUE_FULL:"+want+"\n", string(protocol.AppendReply(nil, protocol.Reply{Code: protocol.CodeQueueFull, Wait: wait})))
	}
}

func TestAppendersRefuseWhatCannotBeRead(t *testing.T) {
	require.PanicsWithValue(t, "protocol: an LF cannot be sent in dialect 1", func() { protocol.AppendBatch(nil, 1, []byte("a\nb")) })
	require.PanicsWithValue(t, "protocol: an LF cannot be sent in dialect 1", func() { protocol.AppendAuth(nil, "a\n") })
	const number = "protocol: number 0 is not from 1 to 9223372036854775807"
	require.PanicsWithValue(t, number, func() { protocol.AppendCommit(nil, 0) })
	require.PanicsWithValue(t, number, func() { protocol.AppendBatch(nil, 0, nil) })
	require.Panics(t, func() { protocol.AppendCommit(nil, protocol.MaxID+1) })
	require.Panics(t, func() {
		protocol.AppendReply(nil, protocol.Reply{Code: protocol.CodeAck, Watermark: protocol.MaxID + 1})
	})
	require.PanicsWithValue(t, "protocol: no reply has code 0", func() { protocol.AppendReply(nil, protocol.Reply{}) })
}

// A CR at the end of a field survives, since appended lines end in CRLF.
func TestAppendedRequestsComeBack(t *testing.T) {
	for _, text := range []string{"", "a", "\r", "a\r\r", ":", "a:b", "\x00\xff"} {
		var lines []byte
		lines = protocol.AppendAuth(lines, text)
		lines = protocol.AppendBatch(lines, 7, []byte(text))
		lines = protocol.AppendCommit(lines, protocol.MaxID)
		require.Equal(t, []event{auth(text), batch(7, text), commit(protocol.MaxID)}, readEverySplit(t, 0, lines))
	}
}

func TestMessages(t *testing.T) {
	requests, replies := map[protocol.Command]int{}, map[protocol.Code]int{}
	for m := range protocol.Messages(1) {
		require.Equal(t, 1, m.Dialect)
		require.NotEqual(t, "NONE", m.Command.String())
		if m.Code == 0 {
			require.Equal(t, protocol.Collector, m.From)
			requests[m.Command]++
			continue
		}
		require.Equal(t, protocol.Ingress, m.From)
		require.Equal(t, m.Code == protocol.CodeAuthFailed || m.Code == protocol.CodeRejected, m.Closes)
		replies[m.Code]++
	}
	require.Equal(t, map[protocol.Command]int{protocol.CommandAuth: 1, protocol.CommandBatch: 1, protocol.CommandCommit: 1}, requests)
	require.Len(t, replies, len(codes()))
	require.Equal(t, 2, replies[protocol.CodeAck])

	for range protocol.Messages(1) {
		break // stopping early is allowed
	}
	for m := range protocol.Messages(3) {
		t.Fatalf("dialect 3 has %v", m)
	}
	require.Equal(t, "NONE", protocol.Command(0).String())
	require.Equal(t, "NONE", protocol.Code(200).String())
}
