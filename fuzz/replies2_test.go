package fuzz

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

func panics(call func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	call()
	return false
}

func FuzzReplyWelcome2(f *testing.F) { fuzzReply2(f, protocol.CodeWelcome) }
func FuzzReplyAck2(f *testing.F)     { fuzzReply2(f, protocol.CodeAck) }
func FuzzReplyWindow2(f *testing.F)  { fuzzReply2(f, protocol.CodeWindow) }
func FuzzReplyResend2(f *testing.F)  { fuzzReply2(f, protocol.CodeResend) }
func FuzzReplyNack2(f *testing.F)    { fuzzReply2(f, protocol.CodeNack) }
func FuzzReplyPing2(f *testing.F)    { fuzzReply2(f, protocol.CodePing) }
func FuzzReplyPong2(f *testing.F)    { fuzzReply2(f, protocol.CodePong) }
func FuzzReplyBye2(f *testing.F)     { fuzzReply2(f, protocol.CodeBye) }
func FuzzReplyGoaway2(f *testing.F)  { fuzzReply2(f, protocol.CodeGoaway) }
func FuzzReplyError2(f *testing.F)   { fuzzReply2(f, protocol.CodeError) }

// carried2 is what is left of a message of the ingress on the wire; of a text that is not fit for it, see plain.
func carried2(r protocol.Reply2) protocol.Reply2 {
	wire := protocol.Reply2{Code: r.Code}
	wait := min(max(r.Wait, 0), protocol.MaxWait)
	if part := wait % time.Millisecond; part > 0 {
		wait += time.Millisecond - part
	}
	switch r.Code {
	case protocol.CodeWelcome:
		wire.Welcome = r.Welcome
	case protocol.CodeAck:
		wire.Watermark = r.Watermark
	case protocol.CodeWindow:
		wire.Batches, wire.Bytes = r.Batches, r.Bytes
	case protocol.CodeResend:
		wire.ID, wire.Wait = r.ID, wait
	case protocol.CodeNack:
		wire.ID, wire.Reason, wire.Text = r.ID, r.Reason, r.Text
	case protocol.CodeGoaway:
		wire.Wait, wire.Text = wait, r.Text
	case protocol.CodeError:
		wire.Reason, wire.Text = r.Reason, r.Text
	}
	return wire
}

// plain tells whether a text goes over the wire as it is.
func plain(text string) bool {
	return len(text) <= protocol.MaxText && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// welcome2 is a WELCOME with up to three ranges.
func (d *draw) welcome2(id uint64) *protocol.Welcome {
	w := &protocol.Welcome{Epoch: uint64(d.byte()), Received: id & protocol.MaxID, WindowBatches: 1 + uint64(d.byte()),
		WindowBytes: max(id&protocol.MaxID, 1), MaxBatchBytes: 1 + d.below(1<<16), Idle: time.Duration(1+d.below(1<<16)) * time.Millisecond,
		Server: "tidemark <1>"}
	last := uint64(0)
	for range d.below(4) {
		r := protocol.Range{First: last + 1 + uint64(d.byte())}
		r.Last = r.First + uint64(d.byte())
		last = r.Last
		w.Missing, w.Lost = append(w.Missing, r), append(w.Lost, r)
	}
	w.Committed = w.Received / 2
	return w
}

// fuzzReply2: a message of the ingress is read with the fields it was given, however it is split; with other bytes in
// it, it still reads as its pieces do, and what is read is written as what is read again.
func fuzzReply2(f *testing.F, code protocol.Code) {
	for i, wait := range []time.Duration{math.MinInt64, 0, 1, time.Millisecond, time.Second + 1, protocol.MaxWait, math.MaxInt64} {
		f.Add(numbers[i], int64(wait), uint8(10), "why", []byte{byte(i), 0, 3, 0, 9, 0, 40, 0, 2, 0, byte(3 * i), byte(i), ' ', 0, 30, 2})
	}
	for reason := range uint8(40) {
		f.Add(uint64(1), int64(0), reason, "a\ttext\x00", []byte{})
		f.Add(uint64(1), int64(0), reason, strings.Repeat("é", protocol.MaxText), []byte{})
	}
	f.Fuzz(func(t *testing.T, id uint64, wait int64, reason uint8, text string, choices []byte) {
		d := &draw{choices}
		given := protocol.Reply2{Code: code, Welcome: d.welcome2(id), Watermark: id, Batches: id, Bytes: id, ID: id,
			Wait: time.Duration(wait), Reason: protocol.Code(reason), Text: text}
		if panics(func() { protocol.AppendReply2(nil, given) }) {
			require.True(t, id < 1 || id > protocol.MaxID || code == protocol.CodeNack || code == protocol.CodeError, "%+v", given)
			return
		}
		read := func(pieces ...[]byte) []event2[protocol.Reply2] { return readReplies2(t, pieces...) }
		stream := protocol.AppendReply2(nil, given)
		stream = protocol.AppendReply2(stream, protocol.Reply2{Code: protocol.CodeAck, Watermark: 7})
		stream = protocol.AppendReply2(stream, given)
		events := readSplit2(t, stream, d, read)
		require.Len(t, events, 3)
		require.Equal(t, events[0], events[2])
		got, want := events[0].message, carried2(given)
		if !plain(want.Text) {
			require.True(t, plain(got.Text), "%q", got.Text)
			want.Text = got.Text
		}
		require.Equal(t, event2[protocol.Reply2]{message: want}, event2[protocol.Reply2]{got, events[0].refused})
		for _, e := range readSplit2(t, d.change(stream), d, read) {
			m := e.message
			if e.refused != nil || m.Reason == 0 && (m.Code == protocol.CodeNack || m.Code == protocol.CodeError) || !plain(m.Text) {
				continue // a reason this program does not know is read and never written
			}
			require.Equal(t, []event2[protocol.Reply2]{e}, readReplies2(t, protocol.AppendReply2(nil, m)))
		}
	})
}
