package collector

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

var testBackoff = Backoff{Min: 100 * time.Millisecond, Max: time.Second}

// talk is a core on a connection, and what it says as text.
type talk struct {
	t    *testing.T
	core *Core
	now  time.Time
}

// newTalk makes a connected core that holds the records a, b, c and so on.
func newTalk(t *testing.T, first uint64, held, window int) *talk {
	var records [][]byte
	for i := range held {
		records = append(records, []byte{byte('a' + i)})
	}
	k := &talk{t, NewCore(first, records, window, testBackoff, func() float64 { return 0 }), epoch}
	require.Equal(t, "__AUTH__:token\r\n", string(k.core.Connect(nil, "token")))
	require.Empty(t, k.core.Send(nil, epoch, 1<<20), "nothing is sent before the ingress has let it in")
	k.takes("ACK")
	return k
}

// says checks what the core sends now: one word for each request, without the dressing of the wire.
func (k *talk) says(want string) {
	k.t.Helper()
	text := string(k.core.Send(nil, k.now, 1<<20))
	text = strings.NewReplacer("__BATCH__:", "", "__COMMIT__:", "?", "\r\n", " ").Replace(text)
	require.Equal(k.t, want, strings.TrimSpace(text))
}

// takes gives replies to the core.
func (k *talk) takes(replies ...string) {
	k.t.Helper()
	for _, reply := range replies {
		require.NoError(k.t, k.take(reply), reply)
	}
}

func (k *talk) take(reply string) error {
	k.t.Helper()
	r, err := protocol.ParseReply([]byte(reply))
	require.NoError(k.t, err)
	return k.core.TakeReply(r, k.now)
}

func (k *talk) wakes(after time.Duration) {
	k.t.Helper()
	at, ok := k.core.Wake()
	require.True(k.t, ok)
	require.Equal(k.t, after, at.Sub(k.now))
	k.now = at
}

func TestCoreSendsAndForgets(t *testing.T) {
	k := newTalk(t, 1, 3, 10)
	k.says("1:a 2:b 3:c")
	k.says("")
	k.takes("RECEIVED", "RECEIVED")
	k.says("?1")
	k.takes("RECEIVED", "PENDING")
	k.says("")
	k.wakes(2 * time.Millisecond)
	k.says("?1")
	k.takes("PENDING")
	k.wakes(4 * time.Millisecond)
	k.says("?1")
	k.takes("ACK:2")
	require.Equal(t, uint64(2), k.core.Watermark())
	k.wakes(time.Millisecond)
	require.Equal(t, uint64(4), k.core.Produce([]byte("d")))
	k.says("4:d ?3")
	k.takes("RECEIVED", "ACK:4")
	held, bytes := k.core.Held()
	require.Zero(t, held)
	require.Zero(t, bytes)
	_, timed := k.core.Wake()
	require.False(t, timed)
	require.False(t, k.core.Waiting())
	require.Equal(t, Stats{Records: 4, Acknowledged: 4, Sent: 4}, k.core.Stats())
}

func TestCorePollsRarelyInTheEnd(t *testing.T) {
	k := newTalk(t, 1, 1, 10)
	k.says("1:a")
	k.takes("RECEIVED")
	for range 10 {
		k.says("?1")
		k.takes("PENDING")
		at, _ := k.core.Wake()
		k.now = at
	}
	k.says("?1")
	k.takes("PENDING")
	k.wakes(maxPoll)
}

func TestCoreWindow(t *testing.T) {
	k := newTalk(t, 5, 4, 2)
	k.says("5:a 6:b")
	k.takes("RECEIVED", "RECEIVED")
	k.says("?5")
	k.takes("ACK:5")
	k.says("7:c")
}

func TestCoreStopsAtSize(t *testing.T) {
	k := newTalk(t, 1, 3, 10)
	require.Equal(t, "__BATCH__:1:a\r\n", string(k.core.Send(nil, k.now, 1)))
	require.Equal(t, "x__BATCH__:2:b\r\n", string(k.core.Send([]byte("x"), k.now, 2)))
}

// After any end of a connection everything that is held comes again, in order.
func TestCoreSendsAgainAfterReconnect(t *testing.T) {
	k := newTalk(t, 1, 4, 10)
	k.says("1:a 2:b 3:c 4:d")
	k.takes("RECEIVED", "RECEIVED")
	k.says("?1")
	k.takes("RECEIVED", "RECEIVED", "ACK:1")
	k.core.Connect(nil, "token")
	k.takes("ACK")
	k.says("2:b 3:c 4:d")
	require.Equal(t, uint64(3), k.core.Stats().Resent)
}

// QUEUE_FULL: that long, and then the same batch and all above it.
func TestCoreQueueFull(t *testing.T) {
	k := newTalk(t, 1, 4, 10)
	k.says("1:a 2:b 3:c 4:d")
	k.takes("RECEIVED", "QUEUE_FULL:300")
	k.says("?1")
	k.takes("RETRY")
	k.now = k.now.Add(time.Second)
	k.says("") // the reply to 4 is still to come
	k.takes("RETRY", "ACK:1")
	k.says("2:b")
	require.Equal(t, 1, k.core.window.size, "the window has shrunk to what is held there")
}

func TestCoreQueueFullWaits(t *testing.T) {
	k := newTalk(t, 1, 1, 10)
	k.says("1:a")
	k.takes("QUEUE_FULL:300")
	k.now = k.now.Add(300*time.Millisecond - 1)
	k.says("")
	k.wakes(1)
	k.says("1:a")
}

// RETRY backs off with growing waits, which end with what is accepted.
func TestCoreRetry(t *testing.T) {
	k := newTalk(t, 1, 2, 10)
	for _, wait := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		k.says("1:a 2:b")
		k.takes("RETRY", "RETRY")
		k.says("")
		k.wakes(wait * time.Millisecond)
	}
	k.says("1:a 2:b")
	k.takes("RECEIVED", "RETRY")
	k.core.ask = k.now.Add(time.Hour)
	k.wakes(100 * time.Millisecond)
	k.says("2:b")
}

// A commit that finds the batch missing brings it, and all above it, again.
func TestCoreResend(t *testing.T) {
	for _, reply := range []string{"RESEND", "RETRY"} {
		k := newTalk(t, 1, 3, 10)
		k.says("1:a 2:b 3:c")
		k.takes("RECEIVED", "RECEIVED", "RECEIVED")
		k.says("?1")
		k.takes(reply)
		k.core.ask = k.now.Add(time.Hour)
		k.wakes(100 * time.Millisecond)
		k.says("1:a 2:b 3:c")
	}
}

// The lowest number that is missing counts.
func TestCoreResendBelowRefusal(t *testing.T) {
	k := newTalk(t, 1, 3, 10)
	k.says("1:a 2:b 3:c")
	k.takes("RECEIVED", "QUEUE_FULL:300")
	k.says("?1")
	k.takes("RETRY", "RESEND")
	k.core.ask = k.now.Add(time.Hour)
	k.wakes(300 * time.Millisecond)
	k.says("1:a")
}

// An ACK can overtake a refusal of what it covers, and moves what is to be sent again.
func TestCoreAckBeyondRefusal(t *testing.T) {
	k := newTalk(t, 1, 3, 10)
	k.says("1:a 2:b 3:c")
	k.takes("RECEIVED", "RETRY", "RETRY")
	k.says("?1")
	k.takes("ACK:2")
	k.now = k.now.Add(time.Second)
	k.says("3:c")
}

func TestCoreErrors(t *testing.T) {
	for reply, want := range map[string]error{
		"CONFLICT":       &Refused{Code: protocol.CodeConflict, ID: 7, Number: 7, Record: []byte("a")},
		"STALE":          &Refused{Code: protocol.CodeStale, ID: 7, Number: 7, Record: []byte("a")},
		"TOO_LARGE":      &Refused{Code: protocol.CodeTooLarge, ID: 7, Number: 7, Record: []byte("a")},
		"DECRYPT_FAILED": &Refused{Code: protocol.CodeDecryptFailed, ID: 7, Number: 7, Record: []byte("a")},
		"DECODE_FAILED":  &Refused{Code: protocol.CodeDecodeFailed, ID: 7, Number: 7, Record: []byte("a")},
		"BAD_REQUEST":    &Refused{Code: protocol.CodeBadRequest, ID: 7, Number: 7, Record: []byte("a")},
		"INVALID_PARAM":  &Refused{Code: protocol.CodeInvalidParam, ID: 7, Number: 7, Record: []byte("a")},
	} {
		k := newTalk(t, 7, 1, 10)
		k.says("7:a")
		err := k.take(reply)
		require.Equal(t, want, err)
		require.True(t, fatal(err))
		require.Contains(t, err.Error(), `record 7 ("a"): `+reply)
		held, _ := k.core.Held()
		require.Equal(t, 1, held, "nothing is forgotten")
	}
	for _, reply := range []string{"ACK", "ACK:1", "PENDING", "RESEND", "REJECTED", "AUTH_FAILED"} {
		k := newTalk(t, 1, 1, 10)
		k.says("1:a")
		err := k.take(reply)
		require.ErrorIs(t, err, ErrUnexpected, reply)
		require.False(t, fatal(err))
	}
	for _, reply := range []string{"ACK", "RECEIVED", "CONFLICT", "QUEUE_FULL:1"} {
		k := newTalk(t, 1, 1, 10)
		k.says("1:a")
		k.takes("RECEIVED")
		k.says("?1")
		require.ErrorIs(t, k.take(reply), ErrUnexpected, reply)
	}
	require.ErrorIs(t, newTalk(t, 1, 1, 1).take("RECEIVED"), ErrUnexpected, "nothing was asked")
}

// B33, the collector's part: a watermark above what was sent on this connection forgets nothing.
func TestB33Overdrawn(t *testing.T) {
	k := newTalk(t, 1, 4, 2)
	k.says("1:a 2:b")
	k.takes("RECEIVED", "RECEIVED")
	k.says("?1")
	err := k.take("ACK:3")
	require.Equal(t, &Overdrawn{Watermark: 3, Sent: 2}, err)
	require.True(t, fatal(err))
	held, _ := k.core.Held()
	require.Equal(t, 4, held)

	k = newTalk(t, 5, 2, 2)
	k.says("5:a 6:b")
	k.takes("RECEIVED", "RECEIVED")
	k.says("?5")
	require.ErrorIs(t, k.take("ACK:4"), ErrUnexpected, "a watermark below what was asked about")
}

func TestCoreAuth(t *testing.T) {
	for reply, check := range map[string]func(error) bool{
		"REJECTED":    func(err error) bool { return err == ErrRejected },
		"AUTH_FAILED": fatal,
		"BAD_REQUEST": fatal,
		"PENDING":     func(err error) bool { return !fatal(err) },
		"ACK:1":       func(err error) bool { return !fatal(err) },
	} {
		c := NewCore(1, nil, 1, testBackoff, nil)
		c.Connect(nil, "token")
		r, err := protocol.ParseReply([]byte(reply))
		require.NoError(t, err)
		err = c.TakeReply(r, epoch)
		require.Error(t, err, reply)
		require.True(t, check(err), "%s: %v", reply, err)
		require.False(t, c.Open())
	}
}
