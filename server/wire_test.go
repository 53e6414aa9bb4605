package server

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/statemachine"
)

const greeting = "__AUTH__:tok-A\n__BATCH__:1:a\n__BATCH__:2:b\n__COMMIT__:2\n"

// greeted checks the replies to greeting, and that both batches arrive.
func greeted(t *testing.T, w *world, c *client) {
	t.Helper()
	require.Equal(t, []string{"ACK", "RECEIVED", "RECEIVED"}, c.replies(3))
	require.Contains(t, []string{"PENDING", "ACK:1", "ACK:2"}, c.reply())
	c.eventually(2, "ACK:2")
	require.Equal(t, []string{"a/a", "a/b"}, w.durable())
}

func TestB04PipelinedBehindAuth(t *testing.T) {
	for at := 0; at <= len(greeting); at++ { // 0: all in one write
		w := newWorld()
		ts := start(t, w, nil)
		c := ts.dial()
		if at > 0 {
			c.write(greeting[:at])
		}
		if at < len(greeting) {
			c.write(greeting[at:])
		}
		greeted(t, w, c)
		ts.kill()
	}
}

func TestB04OneByteAtATime(t *testing.T) {
	w := newWorld()
	c := start(t, w, nil).dial()
	for i := range greeting {
		c.write(greeting[i : i+1])
	}
	greeted(t, w, c)
}

func TestB04WrongTokenInOneWrite(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c := ts.dial()
	c.write(strings.Replace(greeting, "tok-A", "tok-X", 1))
	require.Equal(t, "AUTH_FAILED", c.reply())
	c.closed()
	require.Empty(t, ts.Streams())
	require.Zero(t, w.called())
}

func TestB05LinesAroundTheLimit(t *testing.T) {
	const limit = 1000
	for _, test := range []struct {
		length int
		ending string
		want   string
	}{
		{limit - 1, "\n", "RECEIVED"}, {limit, "\n", "RECEIVED"}, {limit + 1, "\n", "TOO_LARGE"},
		{limit, "\r\n", "RECEIVED"}, {limit + 1, "\r\n", "TOO_LARGE"}, {64*1024 + 1, "\n", "TOO_LARGE"},
	} {
		w := newWorld()
		ts := start(t, w, func(o *Options) { o.MaxLineBytes = limit })
		c := ts.login()
		payload := strings.Repeat("x", test.length-len("__BATCH__:1:"))
		c.write("__BATCH__:1:" + payload + test.ending + "__BATCH__:2:y\n")
		require.Equal(t, test.want, c.reply(), "%d bytes", test.length)
		if test.want == "RECEIVED" {
			require.Equal(t, "RECEIVED", c.reply())
			c.eventually(2, "ACK:2")
			require.Equal(t, []string{"a/" + payload, "a/y"}, w.durable())
		} else {
			require.Equal(t, "RETRY", c.reply(), "above a refused one")
			c.expect("__BATCH__:1:short", "RECEIVED")
			c.insist("__BATCH__:2:y")
			c.eventually(2, "ACK:2")
			require.Equal(t, []string{"a/short", "a/y"}, w.durable())
		}
		ts.kill()
	}
}

func TestB05DefaultLimitTakesLongLines(t *testing.T) {
	w := newWorld()
	c := start(t, w, nil).login()
	head := "__BATCH__:1:"
	for id, n := range []int{64*1024 + 1, protocol.DefaultMaxLine} {
		head = fmt.Sprintf("__BATCH__:%d:", id+1)
		c.expect(head+strings.Repeat("x", n-len(head)), "RECEIVED")
	}
	c.eventually(2, "ACK:2")
	require.Equal(t, protocol.DefaultMaxLine-len(head), len(w.durable()[1])-len("a/"))
}

// heap is what is live after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestB05LineWithoutEnd(t *testing.T) {
	const limit = protocol.DefaultMaxLine
	ts := start(t, newWorld(), nil)
	c := ts.login()
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	before := heap()
	c.write("__BATCH__:1:")
	for i := range 100 {
		_, err := c.conn.Write(chunk)
		require.NoError(t, err)
		if i == 8 { // it is refused long before its end
			require.Equal(t, "TOO_LARGE", c.reply())
		}
		if i%25 == 0 {
			require.Less(t, heap()-before, int64(4*limit))
		}
	}
	c.write("__BATCH__:9:smuggled\n")
	c.expect("__BATCH__:1:x", "RECEIVED")
	c.expect("__COMMIT__:9", "RETRY") // the tail never became a batch
	require.EqualValues(t, 1, ts.status("a").Received)
}

func TestB05TailIsNotACommand(t *testing.T) {
	ts := start(t, newWorld(), func(o *Options) { o.MaxLineBytes = 100 })
	c := ts.login()
	for cut := 85; cut <= 120; cut++ {
		c.write("__BATCH__:1:" + strings.Repeat("x", cut-len("__BATCH__:1:")))
		c.write("__BATCH__:9:smuggled\n")
		require.Equal(t, "TOO_LARGE", c.reply(), "cut at %d", cut)
	}
	c.expect("__COMMIT__:9", "RETRY")
	c.expect("__BATCH__:1:x", "RECEIVED")
	require.EqualValues(t, 1, ts.status("a").Received)
}

func TestB05OverLongBeforeAuth(t *testing.T) {
	ts := start(t, newWorld(), nil)
	c := ts.dial()
	// Over the limit, the connection is over: the rest is of no interest, and may hit a closed door.
	_, err := c.conn.Write([]byte("__AUTH__:tok-A" + strings.Repeat("x", maxAuthLine)))
	require.NoError(t, err)
	require.Equal(t, "AUTH_FAILED", c.reply())
	require.Empty(t, ts.Streams())
	_, err = io.Copy(io.Discard, c.in)
	require.NoError(t, err, "the reply arrives whole, and then the end")
}

func TestB11TokensAndEndings(t *testing.T) {
	ts := start(t, newWorld(), func(o *Options) {
		o.Auth = Tokens(map[string]string{"tok-A": "a", "to:k:en": "colons"})
	})
	for line, want := range map[string]string{
		"__AUTH__:to:k:en\n":   "ACK",
		"__AUTH__:tok-A\r\n":   "ACK", // one CR is stripped, from every line
		"__AUTH__:tok-A\n":     "ACK",
		"__AUTH__:tok-A\r\r\n": "AUTH_FAILED",
		"__AUTH__:\n":          "AUTH_FAILED",
		"__AUTH__\n":           "AUTH_FAILED",
		"__AUTH__:tok-A \n":    "AUTH_FAILED",
		"__auth__:tok-A\n":     "AUTH_FAILED",
		"\n":                   "AUTH_FAILED", // a first line that is not AUTH
		"__BATCH__:1:x\n":      "AUTH_FAILED",
		"__COMMIT__:1\n":       "AUTH_FAILED",
	} {
		c := ts.dial()
		c.write(line)
		require.Equal(t, want, c.reply(), "%q", line)
		if want == "AUTH_FAILED" {
			c.closed()
		}
		c.conn.Close()
		until(t, "the seats are free", func() bool {
			return !slices.ContainsFunc(ts.Streams(), func(st Status) bool { return st.Connected })
		})
	}
}

func TestB11DelimitersAndEmptyPieces(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c := ts.login()
	for _, test := range []struct{ line, want string }{
		{"__BATCH__:1:a:b::c:", "RECEIVED"},
		{"__BATCH__:2:__COMMIT__:1", "RECEIVED"},
		{"__BATCH__:3:", "RECEIVED"},
		{"__BATCH__:4", "BAD_REQUEST"},
		{"__BATCH__", "BAD_REQUEST"},
		{"__BATCH__::x", "INVALID_PARAM"},
		{"", "BAD_REQUEST"},
		{"\r", "BAD_REQUEST"},
		{"__batch__:6:x", "BAD_REQUEST"},
		{" __BATCH__:6:x", "BAD_REQUEST"},
		{"__COMMIT__", "BAD_REQUEST"},
		{"__COMMIT__:", "INVALID_PARAM"},
		{"__COMMIT__:0", "INVALID_PARAM"},
		{"__AUTH__:tok-B", "BAD_REQUEST"}, // a second AUTH changes nothing
		{"__AUTH__:wrong", "BAD_REQUEST"},
		{"__BATCH__:4:x\r", "RECEIVED"},
		{"__BATCH__:5:x\r\r", "RECEIVED"},
		{"__BATCH__:6:\x00\xff\t\v é", "RECEIVED"},
	} {
		c.expect(test.line, test.want)
	}
	c.eventually(6, "ACK:6")
	c.expect("__COMMIT__:1\r", "ACK:6")
	c.expect("__COMMIT__:1:x", "INVALID_PARAM")
	require.Equal(t, []string{"a/a:b::c:", "a/__COMMIT__:1", "a/", "a/x", "a/x\r", "a/\x00\xff\t\v é"}, w.durable())
	require.Len(t, ts.Streams(), 1, "the second AUTH opened no other stream")
}

func TestHalfALineIsNoLine(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c := ts.login()
	c.batches(1, 1)
	c.write("__BATCH__:2:half")
	c.conn.Close()
	until(t, "the seat is free", func() bool { return !ts.status("a").Connected })
	require.EqualValues(t, 1, ts.status("a").Received)
}

func TestB24NumberForms(t *testing.T) {
	w := newWorld()
	w.gaps = true
	const odd, most = 9007199254740993, 9223372036854775807
	first := func(o *Options) { o.First = map[string]uint64{"a": odd, "b": most} }
	ts := start(t, w, first)
	c := ts.login()
	for _, bad := range []string{
		"9223372036854775808", "18446744073709551616", "18446744073709551617", "0", "-1", "+1", "01", " 1", "1 ", "1e3",
		"0x10", "1_000", "１", "1.0", "1\r", strings.Repeat("9", 400), strings.Repeat("0", 400) + "1",
	} {
		c.expect("__BATCH__:"+bad+":x", "INVALID_PARAM")
		if bad != "1\r" { // the CR of an ending is no part of the number
			c.expect("__COMMIT__:"+bad, "INVALID_PARAM")
		}
	}
	require.Zero(t, ts.status("a").Received)
	c.expect(fmt.Sprintf("__BATCH__:%d:odd", odd), "RECEIVED")
	c.eventually(odd, fmt.Sprintf("ACK:%d", odd))
	b := ts.loginAs("tok-B")
	b.expect(fmt.Sprintf("__BATCH__:%d:most", most), "RECEIVED")
	b.eventually(most, fmt.Sprintf("ACK:%d", most))
	ts.kill()

	ts = start(t, w, first)
	c, b = ts.login(), ts.loginAs("tok-B")
	require.EqualValues(t, odd, ts.status("a").Committed)
	require.EqualValues(t, most, ts.status("b").Committed)
	c.expect(fmt.Sprintf("__BATCH__:%d:odd", odd), "RECEIVED")
	c.expect(fmt.Sprintf("__COMMIT__:%d", odd), fmt.Sprintf("ACK:%d", odd))
	b.expect(fmt.Sprintf("__BATCH__:%d:most", most), "RECEIVED")
	b.expect(fmt.Sprintf("__COMMIT__:%d", most), fmt.Sprintf("ACK:%d", most))
	b.expect("__BATCH__:1:x", "STALE") // nothing wraps round
	require.Equal(t, []string{"a/odd", "b/most"}, w.durable())
}

func TestSparseClosesOnUnreadableNumber(t *testing.T) {
	w := newWorld()
	w.gaps = true
	sparse := limits(func(l *statemachine.Limits) { l.Sparse = true })
	ts := start(t, w, sparse)
	c := ts.login()
	c.expect("__BATCH__:10:x", "RECEIVED")
	c.expect("__COMMIT__:x", "INVALID_PARAM") // of a COMMIT nothing is lost
	c.send("__BATCH__:2x:lost", "__BATCH__:30:y", "__COMMIT__:30")
	require.Equal(t, "INVALID_PARAM", c.reply())
	c.closed()
	require.EqualValues(t, 10, ts.status("a").Received, "nothing above the unreadable one is taken")
}

func TestRecordWithLF(t *testing.T) {
	w := newWorld()
	packets, err := protocol.NewPacketDecoder(nil, 1000)
	require.NoError(t, err)
	pack, err := protocol.NewPacketEncoder(protocol.CompressionNone, nil, nil)
	require.NoError(t, err)
	c := start(t, w, func(o *Options) { o.Packets = packets }).login()
	packet, err := pack.Append([]byte("__BATCH__:1:"), []byte("two\nlines"))
	require.NoError(t, err)
	require.False(t, bytes.Contains(packet, []byte("\n")))
	c.expect(string(packet), "DECODE_FAILED") // the sink's records end with LF
	require.Empty(t, w.durable())
}
