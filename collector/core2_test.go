package collector

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// requests are messages of a collector as text, a word for each: BATCH 3 of the records a and b is 3:a,b.
func requests(t require.TestingT, wire []byte) string {
	var parser protocol.Parser2
	var words []string
	for len(wire) > 0 {
		req, n, err := parser.Next(wire)
		require.NoError(t, err)
		require.NotZero(t, n, "half a message: %q", wire)
		wire = wire[n:]
		switch req.Command {
		case protocol.CommandHello:
			words = append(words, fmt.Sprintf("HELLO(%d,%d)", req.Hello.First, req.Hello.Next))
		case protocol.CommandBatch:
			words = append(words, fmt.Sprint(req.ID, ":", textOf(Batch{req.Records, req.Payload})))
		case protocol.CommandSkip:
			words = append(words, fmt.Sprint("SKIP:", req.ID))
		default:
			words = append(words, req.Command.String())
		}
	}
	return strings.Join(words, " ")
}

// welcomes is a WELCOME with large windows.
func welcomes(committed, received uint64, missing ...protocol.Range) *protocol.Welcome {
	return &protocol.Welcome{
		Committed: committed, Received: received, Missing: missing, WindowBatches: 1 << 40, WindowBytes: 1 << 50, MaxBatchBytes: 1 << 20,
		Idle: time.Minute,
	}
}

var known = Numbers{Instance: "i", Known: true}

// talk2 is a core on a connection.
type talk2 struct {
	t    *testing.T
	core *Core2
	now  time.Time
}

// newTalk2 makes a core that holds as many batches a, b, c and so on from id first, and is not connected.
func newTalk2(t *testing.T, first uint64, held int, n Numbers) *talk2 {
	k := &talk2{t, NewCore2("edge", "token", first, first+uint64(held), n, Limits2{Batches: 100, Bytes: 1000}), epoch}
	for i := range held {
		k.core.Load(first+uint64(i), batchOf(string(rune('a'+i))))
	}
	return k
}

// connects says HELLO and takes the WELCOME.
func (k *talk2) connects(hello string, w *protocol.Welcome) {
	k.t.Helper()
	require.Equal(k.t, hello, requests(k.t, k.core.Connect(nil, k.core.end(), k.now)))
	k.says("")
	require.NoError(k.t, k.core.TakeReply(protocol.Reply2{Code: protocol.CodeWelcome, Welcome: w}, k.now))
	if k.core.before.Known {
		k.core.Stored()
	}
}

// says checks what the core sends now.
func (k *talk2) says(want string) {
	k.t.Helper()
	require.Equal(k.t, want, requests(k.t, k.core.Send(nil, k.now, 1<<20)))
}

// take gives one reply, as it stands on the wire, to the core.
func (k *talk2) take(reply string) error {
	k.t.Helper()
	var parser protocol.ReplyParser2
	r, n, err := parser.Next([]byte(reply + "\r\n"))
	require.NoError(k.t, err)
	require.NotZero(k.t, n)
	return k.core.TakeReply(r, k.now)
}

func (k *talk2) takes(replies ...string) {
	k.t.Helper()
	for _, reply := range replies {
		require.NoError(k.t, k.take(reply), reply)
	}
}

func TestCore2SendsAndForgets(t *testing.T) {
	k := newTalk2(t, 1, 3, known)
	k.connects("HELLO(1,4)", welcomes(0, 0))
	require.True(t, k.core.Open())
	k.says("READY 1:a 2:b 3:c")
	k.says("")
	k.takes("ACK 2")
	require.Equal(t, uint64(2), k.core.Watermark())
	k.core.Load(4, batchOf("d", "D"))
	k.says("4:d,D")
	k.takes("ACK 4")
	held, bytes := k.core.Held()
	require.Zero(t, held)
	require.Zero(t, bytes)
	require.Equal(t, Stats{Records: 5, Acknowledged: 5, Sent: 5}, k.core.Stats())
	k.core.Disconnect()
	require.False(t, k.core.Open())
	k.connects("HELLO(5,5)", welcomes(4, 4))
}

// On WELCOME what is missing and what is above received goes again, in order; nothing else.
func TestCore2Resumes(t *testing.T) {
	k := newTalk2(t, 1, 8, known)
	k.connects("HELLO(1,9)", welcomes(0, 0))
	k.says("READY 1:a 2:b 3:c 4:d 5:e 6:f 7:g 8:h")
	k.connects("HELLO(1,9)", welcomes(1, 7, protocol.Range{First: 3, Last: 3}, protocol.Range{First: 5, Last: 6}))
	require.Equal(t, uint64(1), k.core.Watermark())
	k.says("READY 3:c 5:e 6:f 8:h")
	require.Equal(t, uint64(4), k.core.Stats().Resent)
	k.takes("RESEND 2 0") // what was there is not any more
	k.says("2:b 3:c 4:d 5:e 6:f 7:g 8:h")
	k.connects("HELLO(2,9)", welcomes(4, 6, protocol.Range{First: 1, Last: 5}))
	k.says("READY 5:e 7:g 8:h")
}

// RESEND while some of what is missing was not sent yet.
func TestCore2ResendAmongMissing(t *testing.T) {
	for resend, want := range map[string]string{
		"RESEND 1 0": "1:a 2:b 3:c 4:d 5:e 6:f",
		"RESEND 2 0": "2:b 3:c 4:d 5:e 6:f",
		"RESEND 3 0": "2:b 3:c 4:d 5:e 6:f",
		"RESEND 4 0": "2:b 4:d 5:e 6:f",
		"RESEND 5 0": "2:b 4:d 5:e 6:f",
		"RESEND 6 0": "2:b 4:d 6:f",
		"RESEND 9 0": "2:b 4:d 6:f",
	} {
		k := newTalk2(t, 1, 6, known)
		k.connects("HELLO(1,7)", welcomes(0, 5, protocol.Range{First: 2, Last: 2}, protocol.Range{First: 4, Last: 4}))
		k.takes(resend)
		k.says("READY " + want)
	}
	k := newTalk2(t, 1, 7, known)
	k.connects("HELLO(1,8)", welcomes(0, 6, protocol.Range{First: 6, Last: 6}))
	k.takes("RESEND 4 0")
	k.says("READY 4:d 5:e 6:f 7:g")
}

// The window counts numbers above the last watermark, and bytes; one batch always may go.
func TestCore2Window(t *testing.T) {
	k := newTalk2(t, 1, 5, known) // 2 bytes each
	w := welcomes(0, 0)
	w.WindowBatches = 2
	k.connects("HELLO(1,6)", w)
	k.says("READY 1:a 2:b")
	k.takes("ACK 1")
	k.says("3:c")
	k.takes("WINDOW 1 1000")
	k.says("")
	k.takes("WINDOW 100 7")
	k.says("4:d")
	k.takes("WINDOW 100 1", "ACK 3")
	k.says("")
	k.takes("ACK 4")
	k.says("5:e")

	// An ingress that holds batches of an earlier life: 41 is committed, and 57 is the lowest held. Whether it says what it
	// received before READY or after, 56 is given up by READY.
	for _, received := range []uint64{44, 56} {
		k = newTalk2(t, 57, 3, known)
		w = welcomes(41, received)
		w.WindowBatches = 16
		k.connects("HELLO(57,60)", w)
		k.says("READY 57:a")
		k.takes("ACK 56")
		k.says("58:b 59:c")
	}
}

func TestCore2Room(t *testing.T) {
	k := newTalk2(t, 1, 0, known)
	require.False(t, k.core.Room(), "nothing is loaded without a connection")
	w := welcomes(0, 0)
	w.WindowBatches, w.WindowBytes = 3, 4
	k.connects("HELLO(1,1)", w)
	require.True(t, k.core.Room())
	k.core.Load(1, batchOf(strings.Repeat("x", 100)))
	require.False(t, k.core.Room(), "bytes")
	k.says("READY 1:" + strings.Repeat("x", 100))
	k.takes("ACK 1", "WINDOW 3 1000")
	for id := uint64(2); id <= 4; id++ {
		require.True(t, k.core.Room())
		k.core.Load(id, batchOf("x"))
	}
	require.False(t, k.core.Room(), "batches")
	held, bytes := k.core.Held()
	require.Equal(t, 3, held)
	require.Equal(t, int64(6), bytes)
}

// RESEND with a wait holds everything back for as long.
func TestCore2ResendLater(t *testing.T) {
	k := newTalk2(t, 1, 3, known)
	k.connects("HELLO(1,4)", welcomes(0, 0))
	k.says("READY 1:a 2:b 3:c")
	k.takes("RESEND 2 300")
	k.core.Load(4, batchOf("d"))
	at, ok := k.core.Wake()
	require.True(t, ok)
	require.Equal(t, 300*time.Millisecond, at.Sub(k.now))
	k.now = at.Add(-1)
	k.says("")
	k.now = at
	k.says("2:b 3:c 4:d")
	at, _ = k.core.Wake()
	require.Equal(t, 20*time.Second-300*time.Millisecond, at.Sub(k.now), "only the next PING is due")
}

// A collector without numbers goes on behind what the ingress has, when that is on its disk.
func TestCore2FindsItsNumbers(t *testing.T) {
	k := newTalk2(t, 3, 2, Numbers{Instance: "i"})
	k.connects("HELLO(0,0)", welcomes(90, 100))
	require.True(t, k.core.Unstored())
	require.Equal(t, Numbers{Instance: "i", Known: true, Offset: 98}, k.core.Numbers())
	k.says("")
	k.connects("HELLO(0,0)", welcomes(90, 101)) // they were not stored
	k.core.Stored()
	k.says("READY 102:a 103:b")
	k.takes("ACK 101", "ACK 102")
	require.Equal(t, uint64(3), k.core.Watermark())
	k.connects("HELLO(103,104)", welcomes(102, 103))
	k.says("READY")

	k = newTalk2(t, 1000, 1, Numbers{Instance: "i"}) // a new instance for an ingress that lost all
	k.connects("HELLO(0,0)", welcomes(0, 0))
	k.core.Stored()
	k.says("READY 1:a")
	k.takes("ACK 1")
	require.Equal(t, uint64(1000), k.core.Watermark())
}

// RETIRED and FORGOT: all that is held goes under new numbers.
func TestCore2Anew(t *testing.T) {
	for reason, want := range map[string]error{"RETIRED": ErrRetired, "FORGOT": ErrForgot} {
		k := newTalk2(t, 1, 3, known)
		k.connects("HELLO(1,4)", welcomes(0, 0))
		k.says("READY 1:a 2:b 3:c")
		k.takes("ACK 1")
		k.core.Connect(nil, 4, k.now)
		require.ErrorIs(t, k.take("ERROR "+reason+" x"), want)
		require.False(t, fatal(want))
		k.core.Anew("j")
		require.Equal(t, Numbers{Instance: "j"}, k.core.Numbers())
		k.connects("HELLO(0,0)", welcomes(7, 9))
		k.core.Stored()
		k.says("READY 10:b 11:c")
		k.takes("ACK 11")
		require.Equal(t, uint64(3), k.core.Watermark())
	}
	k := newTalk2(t, 1, 3, known) // an ingress that does not notice
	k.core.Connect(nil, 4, k.now)
	require.ErrorIs(t, k.core.TakeReply(protocol.Reply2{Code: protocol.CodeWelcome, Welcome: welcomes(2, 4)}, k.now), ErrForgot)
	require.Zero(t, k.core.Watermark(), "nothing is forgotten")
}

// What was made before the first WELCOME gets numbers only then: an older copy of the disk does not use them again.
func TestCore2OlderDisk(t *testing.T) {
	k := newTalk2(t, 1, 2, known)
	k.core.Load(3, batchOf("c"))
	require.Equal(t, "HELLO(1,3)", requests(t, k.core.Connect(nil, 4, k.now)), "3 was made since the start")
	require.ErrorIs(t, k.take("ERROR FORGOT x"), ErrForgot)
	k.core.Anew("j")
	k.connects("HELLO(0,0)", welcomes(0, 3))
	k.core.Stored()
	k.says("READY 4:a 5:b 6:c")
	k.connects("HELLO(4,7)", welcomes(0, 6))
}

// NACK: the batch is reported with its records; with SKIP the ingress goes on without it, now and after a reconnect.
func TestCore2Nack(t *testing.T) {
	k := newTalk2(t, 1, 3, Numbers{Instance: "i", Known: true, Offset: 10})
	k.core.Load(4, batchOf("d", "D"))
	k.connects("HELLO(11,14)", welcomes(10, 10))
	k.says("READY 11:a 12:b 13:c 14:d,D")
	err := k.take("NACK 14 DECODE_FAILED holds an LF")
	require.Equal(t, &Refused{
		Code: protocol.CodeDecodeFailed, ID: 4, Number: 14, Record: []byte("d"), Batch: batchOf("d", "D"), Text: "holds an LF",
	}, err)
	require.True(t, fatal(err))
	require.Contains(t, err.Error(), `batch 14 (2 records from "d"): DECODE_FAILED ("holds an LF")`)
	held, _ := k.core.Held()
	require.Equal(t, 4, held, "nothing is forgotten")
	k.core.Skip(4)
	k.says("SKIP:14")
	k.takes("RESEND 13 0")
	k.says("13:c SKIP:14")
	k.connects("HELLO(11,15)", welcomes(12, 12))
	k.says("READY 13:c SKIP:14")
	k.takes("ACK 14")
	require.Equal(t, uint64(4), k.core.Watermark())
	k.core.Skip(4)
	k.says("")
	require.ErrorIs(t, k.take("NACK 14 CONFLICT late"), ErrUnexpected)
}

// Both sides hear something before idle is over.
func TestCore2Pings(t *testing.T) {
	k := newTalk2(t, 1, 1, known)
	k.connects("HELLO(1,2)", welcomes(0, 0))
	require.Equal(t, time.Minute, k.core.Idle())
	k.says("READY 1:a")
	k.takes("PING", "PING")
	k.says("PONG PONG")
	silent := time.Duration(0)
	for range 3 { // the ingress says nothing
		at, ok := k.core.Wake()
		require.True(t, ok)
		require.Equal(t, 20*time.Second, at.Sub(k.now))
		k.now = at.Add(-1)
		k.says("")
		k.now = at
		k.says("PING")
		silent += 20 * time.Second
	}
	require.Equal(t, time.Minute, silent)
	for range 3 { // we have nothing to say, and it acknowledges
		k.now = k.now.Add(19 * time.Second)
		k.takes("WINDOW 100 100")
	}
	k.says("PING")
	k.takes("PONG")
	k.says("")
	for range 1000 {
		k.takes("PING")
	}
	require.Equal(t, strings.Repeat(" PONG", 8), " "+requests(t, k.core.Send(nil, k.now, 1)))
}

func TestCore2ByeAndGoaway(t *testing.T) {
	k := newTalk2(t, 1, 3, known)
	k.core.Bye()
	k.connects("HELLO(1,4)", welcomes(0, 0))
	require.Equal(t, "READY 1:a", requests(t, k.core.Send(nil, k.now, 10)))
	k.core.Bye()
	k.core.Skip(1)
	k.says("BYE")
	k.says("")
	k.takes("ACK 1")
	require.ErrorIs(t, k.take("BYE"), ErrBye)
	require.Equal(t, uint64(1), k.core.Watermark())

	k.connects("HELLO(2,4)", welcomes(1, 1))
	require.Zero(t, k.core.Away())
	k.takes("GOAWAY 1500 restart")
	require.Equal(t, 1500*time.Millisecond, k.core.Away())
	k.says("READY")
	k.takes("PING")
	k.says("PONG")
	k.core.Load(4, batchOf("d"))
	k.says("")
	require.Equal(t, &Overdrawn{2, 1}, k.take("ACK 2"), "it was not sent on this connection, nor received before")
}

func TestCore2Errors(t *testing.T) {
	for reply, want := range map[string]error{
		"ERROR FENCED x": ErrFenced, "ERROR REJECTED x": ErrRejected, "ERROR IDLE x": ErrIdle, "ERROR WINDOW x": ErrUnexpected,
		"ERROR WHATEVER x": ErrUnexpected, "BYE": ErrUnexpected,
		"ACK 4": &Overdrawn{4, 3}, "ACK 1": ErrUnexpected, "NACK 9 STALE x": ErrUnexpected, "NACK 2 STALE x": ErrUnexpected,
		"ERROR AUTH_FAILED who": &Refused{Code: protocol.CodeAuthFailed, Text: "who"},
		"ERROR FIRST far":       &Refused{Code: protocol.CodeFirst, Text: "far"},
		"ERROR VERSION 2":       &Refused{Code: protocol.CodeVersion, Text: "2"},
		"ERROR BAD_REQUEST x":   &Refused{Code: protocol.CodeBadRequest, Text: "x"},
	} {
		k := newTalk2(t, 3, 4, known)
		k.connects("HELLO(3,7)", welcomes(2, 2))
		require.Equal(t, "READY 3:a", requests(t, k.core.Send(nil, k.now, 10)))
		err := k.take(reply)
		if fmt.Sprintf("%T", want) != "*errors.errorString" {
			require.Equal(t, want, err, reply)
			require.True(t, fatal(err))
		} else {
			require.ErrorIs(t, err, want, reply)
			require.False(t, fatal(err), reply)
		}
		held, _ := k.core.Held()
		require.Equal(t, 4, held, "nothing is forgotten")
	}
	for _, reply := range []string{"ACK 1", "BYE", "WINDOW 1 1", "RESEND 1 0", "NACK 1 STALE x"} {
		k := newTalk2(t, 1, 1, known)
		require.ErrorIs(t, k.take(reply), ErrUnexpected, "%s before HELLO", reply)
		k.core.Connect(nil, 2, k.now)
		require.ErrorIs(t, k.take(reply), ErrUnexpected, "%s before WELCOME", reply)
	}
	k := newTalk2(t, 1, 1, known)
	k.connects("HELLO(1,2)", welcomes(0, 0))
	second := protocol.Reply2{Code: protocol.CodeWelcome, Welcome: welcomes(0, 0)}
	require.ErrorIs(t, k.core.TakeReply(second, k.now), ErrUnexpected)
	require.Panics(t, func() { k.core.Load(3, batchOf("x")) })
	require.Panics(t, func() { NewCore2("a", "t", 0, 1, known, Limits2{1, 1}) })
}
