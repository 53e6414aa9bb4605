package collector

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

func TestClient2Sends(t *testing.T) {
	p := newPeer2(t)
	o := p.options()
	acks := make(chan uint64, 10)
	o.OnAck = func(id uint64) { acks <- id }
	c := startClient(t, o)
	record := []byte("a\n")
	id, err := c.Send(t.Context(), record, []byte(""), []byte("c"))
	require.NoError(t, err)
	require.Equal(t, uint64(1), id)
	record[0] = 'x' // the client has its own
	id, err = c.Send(t.Context(), []byte("d"))
	require.NoError(t, err)
	require.Equal(t, uint64(2), id)
	id, err = c.Send(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(2), id, "no records, no batch")

	s := p.ready("HELLO(0,0)", welcomes(5, 7))
	require.Regexp(t, "^[0-9a-f]{32}$", s.instance)
	s.expect("8:a\n,,c", "9:d")
	s.say("ACK 8")
	require.NoError(t, c.Wait(t.Context(), 1))
	require.Equal(t, uint64(1), <-acks)
	late, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Wait(late, 2), context.Canceled)
	s.say("ACK 9")
	require.NoError(t, c.Flush(t.Context()))
	require.Equal(t, uint64(2), <-acks)
	require.Equal(t, Status{Stats: Stats{Records: 4, Acknowledged: 4, Sent: 4}, Connected: true}, c.Status())
	go s.serve()
	require.NoError(t, c.Close())
	require.ErrorIs(t, send(c, []byte("b")), ErrClosed)
	require.ErrorIs(t, c.Flush(t.Context()), ErrClosed)
}

// Close says BYE and waits for the last acknowledgement.
func TestClient2Bye(t *testing.T) {
	p := newPeer2(t)
	c := startClient(t, p.options())
	require.NoError(t, send(c, []byte("a")))
	s := p.ready("HELLO(0,0)", welcomes(0, 0))
	s.expect("1:a")
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	s.expect("BYE")
	s.say("ACK 1", "BYE")
	require.NoError(t, <-closed)
	require.Equal(t, uint64(1), c.Status().Acknowledged)
}

// An ingress that does not answer BYE is not waited for in vain.
func TestClient2ByeUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer2(t)
		c := startClient(t, p.piped())
		require.NoError(t, send(c, []byte("a")))
		s := p.ready("HELLO(0,0)", welcomes(0, 0))
		s.expect("1:a")
		before := time.Now()
		go s.expect("BYE", "the end")
		require.NoError(t, c.Close())
		require.Equal(t, byeTime, time.Since(before))
	})
}

// After a broken connection goes what is missing there and what it has not received, in order, and nothing else.
func TestClient2Resumes(t *testing.T) {
	for _, durable := range []bool{false, true} {
		p := newPeer2(t)
		o := p.options()
		if durable {
			o.Journal = openJournal(t, t.TempDir())
		}
		c := startClient(t, o)
		for _, text := range []string{"a", "b", "c", "d", "e"} {
			require.NoError(t, send(c, []byte(text)))
		}
		s := p.ready("HELLO(0,0)", welcomes(0, 0))
		s.expect("1:a", "2:b", "3:c", "4:d", "5:e")
		s.say("ACK 1")
		require.NoError(t, c.Wait(t.Context(), 1))
		s.conn.Close()
		s = p.ready("HELLO(2,6)", welcomes(1, 4, protocol.Range{First: 3, Last: 3}))
		s.expect("3:c", "5:e")
		s.say("RESEND 4 0")
		s.expect("4:d", "5:e")
		s.say("ACK 5")
		require.NoError(t, c.Flush(t.Context()))
		status := c.Status()
		require.Equal(t, Stats{Records: 5, Acknowledged: 5, Sent: 9, Resent: 4}, status.Stats)
		require.Equal(t, uint64(1), status.Reconnects)
		go s.serve()
		require.NoError(t, c.Close())
	}
}

// B34 in dialect 2: EOF, RST and silence mean "unknown" wherever they come, and nothing is forgotten.
func TestB34UnknownOutcome2(t *testing.T) {
	ends := map[string]func(*side2){
		"EOF":            func(s *side2) {},
		"half a message": func(s *side2) { s.conn.Write([]byte("ACK 1")) },
		"nonsense":       func(s *side2) { s.conn.Write([]byte("ACK x\r\n")) },
		"silence":        func(s *side2) { require.Zero(s.t, s.request().Command) },
	}
	waits := map[string]func(*peer2) *side2{
		"HELLO": func(p *peer2) *side2 { return p.next("HELLO(0,0)") },
		"READY": func(p *peer2) *side2 {
			s := p.next("HELLO(0,0)")
			s.welcome(quick(0, 0))
			return s
		},
	}
	for wait, until := range waits {
		for end, finish := range ends {
			if wait+end == "READYsilence" {
				continue // the client goes on then: see TestClient2Idle
			}
			t.Run(wait+" "+end, func(t *testing.T) {
				p := newPeer2(t)
				o := p.options()
				o.Timeout = 50 * time.Millisecond
				c := startClient(t, o)
				require.NoError(t, send(c, []byte("a")))
				s := until(p)
				finish(s)
				s.conn.Close()
				require.Zero(t, c.Status().Acknowledged)
				s = <-p.conns
				word := word(s.request())
				require.Contains(t, []string{"HELLO(0,0)", "HELLO(1,2)"}, word)
				s.welcome(welcomes(0, 0))
				s.expect("READY", "1:a")
				s.say("ACK 1")
				require.NoError(t, c.Flush(t.Context()))
				go s.serve()
				require.NoError(t, c.Close())
				s.conn.Close()
			})
		}
	}
}

// quick is a WELCOME with a short idle limit.
func quick(committed, received uint64) *protocol.Welcome {
	w := welcomes(committed, received)
	w.Idle = 100 * time.Millisecond
	return w
}

// A connection is kept with PING, and given up when the ingress says nothing for the idle limit.
func TestClient2Idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer2(t)
		c := startClient(t, p.piped())
		require.NoError(t, send(c, []byte("a")))
		s := p.ready("HELLO(0,0)", welcomes(0, 0)) // a minute
		s.expect("1:a")
		for range 5 {
			s.expect("PING")
			s.say("PONG")
		}
		s.say("PING")
		s.expect("PONG", "PING")
		before := time.Now()
		s.say("ACK 1")
		for word(s.request()) == "PING" {
		}
		require.Equal(t, time.Minute, time.Since(before))
		synctest.Wait()
		require.False(t, c.Status().Connected)
		require.Empty(t, p.conns, "nothing is held")
	})
}

// A batch that is refused for good ends the client, which holds all it held.
func TestClient2Refused(t *testing.T) {
	p := newPeer2(t)
	c := startClient(t, p.options())
	require.NoError(t, send(c, []byte("a"), []byte("A")))
	require.NoError(t, send(c, []byte("b")))
	s := p.ready("HELLO(0,0)", welcomes(0, 0))
	s.expect("1:a,A", "2:b")
	s.say("NACK 1 DECODE_FAILED why")
	var refused *Refused
	require.ErrorAs(t, c.Flush(t.Context()), &refused)
	require.Equal(t, batchOf("a", "A"), refused.Batch)
	require.Equal(t, uint64(1), refused.ID)
	<-c.Done()
	require.ErrorAs(t, send(c, []byte("c")), &refused)
	require.Zero(t, c.Status().Acknowledged)
}

// With a policy that says so it is given up, and the rest goes on.
func TestClient2Skips(t *testing.T) {
	p := newPeer2(t)
	o := p.options()
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	told := make(chan *Refused, 10)
	o.OnRefused = func(r *Refused) bool { told <- r; return r.Code == protocol.CodeDecodeFailed }
	c := startClient(t, o)
	for _, text := range []string{"a", "b", "c"} {
		require.NoError(t, send(c, []byte(text)))
	}
	s := p.ready("HELLO(0,0)", welcomes(0, 0))
	s.expect("1:a", "2:b", "3:c")
	s.say("NACK 2 DECODE_FAILED why", "NACK 3 DECODE_FAILED why", "ACK 1")
	for range 2 {
		require.Contains(t, []string{"SKIP:2", "SKIP:3"}, word(s.request()))
	}
	require.Equal(t, uint64(2), (<-told).ID)
	require.Equal(t, uint64(3), (<-told).ID)
	s.conn.Close()
	s = p.ready("HELLO(2,4)", welcomes(1, 1)) // it was not heard
	s.expect("SKIP:2", "SKIP:3")
	s.say("ACK 3")
	require.NoError(t, c.Flush(t.Context()))
	require.NoError(t, send(c, []byte("d")))
	s.expect("4:d")
	s.say("NACK 4 CONFLICT why")
	require.ErrorContains(t, c.Flush(t.Context()), "CONFLICT")
	<-c.Done()
	require.Contains(t, log.String(), "is given up")
}

// What no new connection can cure ends the client at once.
func TestClient2Fatal(t *testing.T) {
	for line, want := range map[string]string{
		"ERROR AUTH_FAILED x": "does not know this token", "ERROR VERSION x": "use --dialect 1",
		"ERROR FIRST x": "tidemark forget",
	} {
		p := newPeer2(t)
		c := startClient(t, p.options())
		require.NoError(t, send(c, []byte("a")))
		s := p.next("HELLO(0,0)")
		s.say(line)
		s.conn.Close()
		require.ErrorContains(t, c.Flush(t.Context()), want)
		<-c.Done()
		require.Empty(t, p.conns, "it is not tried again")
	}
}

// B20: two processes on copies of one buffer do not fight for ever: the one that was taken over is told why, and ends.
func TestB20Fenced(t *testing.T) {
	p := newPeer2(t)
	c := startClient(t, p.options())
	require.NoError(t, send(c, []byte("a")))
	s := p.ready("HELLO(0,0)", welcomes(0, 0))
	s.expect("1:a")
	s.say("ERROR FENCED x") // by a late HELLO of an own connection, perhaps, of the process before this one
	s.conn.Close()
	s = p.ready("HELLO(1,2)", welcomes(0, 1))
	s.say("ERROR FENCED x")
	require.ErrorIs(t, c.Flush(t.Context()), ErrFenced)
	<-c.Done()
	require.Zero(t, c.Status().Acknowledged)
	require.Empty(t, p.conns)
}

// The numbers are taken: all that is held comes again under a new instance. It is counted and said aloud.
func TestClient2Renews(t *testing.T) {
	for _, reason := range []string{"RETIRED", "FORGOT"} {
		dir := t.TempDir()
		p := newPeer2(t)
		o := p.options()
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Journal = openJournal(t, dir)
		c := startClient(t, o)
		for _, text := range []string{"a", "b", "c"} {
			require.NoError(t, send(c, []byte(text)))
		}
		s := p.ready("HELLO(0,0)", welcomes(0, 0))
		s.expect("1:a", "2:b", "3:c")
		s.say("ACK 1")
		require.NoError(t, c.Wait(t.Context(), 1))
		s.conn.Close()
		before := s.instance
		s = p.next("HELLO(2,4)")
		require.Equal(t, before, s.instance)
		s.say("ERROR " + reason + " x")
		s.conn.Close()
		s = p.ready("HELLO(0,0)", welcomes(7, 9))
		require.NotEqual(t, before, s.instance)
		s.expect("10:b", "11:c")
		s.say("ACK 10")
		require.NoError(t, c.Wait(t.Context(), 2), "ids stay")
		require.Equal(t, uint64(1), c.Status().Renewals)
		instance := s.instance
		go s.serve()
		require.NoError(t, c.Close())
		require.Contains(t, log.String(), "level=ERROR")
		require.Contains(t, log.String(), reason)

		j := openJournal(t, dir)
		require.Equal(t, Numbers{Instance: instance, Known: true, Offset: 8}, j.Numbers())
	}
}

// The numbers are on disk before anything is sent under them.
func TestClient2StoresNumbersFirst(t *testing.T) {
	dir := t.TempDir()
	p := newPeer2(t)
	o := p.options()
	o.Journal = openJournal(t, dir)
	c := startClient(t, o)
	require.NoError(t, send(c, []byte("a")))
	s := p.ready("HELLO(0,0)", welcomes(41, 41))
	copied := copyDir(t, dir)
	s.expect("42:a")
	j := openJournal(t, copied)
	require.Equal(t, Numbers{Instance: s.instance, Known: true, Offset: 41}, j.Numbers())
	go s.serve()
}

func copyDir(t *testing.T, dir string) string {
	to := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(to, "copy"), os.DirFS(dir)))
	return filepath.Join(to, "copy")
}

func TestClient2BatchRecords(t *testing.T) {
	p := newPeer2(t)
	o := p.options()
	o.BatchRecords = 2
	c := startClient(t, o)
	id, err := c.Send(t.Context(), bytesOf("a", "b", "c", "d", "e")...)
	require.NoError(t, err)
	require.Equal(t, uint64(3), id)
	s := p.ready("HELLO(0,0)", welcomes(0, 0))
	s.expect("1:a,b", "2:c,d", "3:e")
	s.say("ACK 3")
	require.NoError(t, c.Flush(t.Context()))
	go s.serve()
	require.NoError(t, c.Close())
}

func bytesOf(list ...string) (records [][]byte) {
	for _, s := range list {
		records = append(records, []byte(s))
	}
	return records
}

func TestClient2Records(t *testing.T) {
	p := newPeer2(t)
	c := startClient(t, p.options())
	_, err := c.Send(t.Context(), []byte("good"), make([]byte, MaxBatch))
	var bad *BadRecord
	require.ErrorAs(t, err, &bad)
	require.Equal(t, 1, bad.Index)
	big := bytes.Repeat([]byte("x"), MaxBatch-lengthBytes)
	id, err := c.Send(t.Context(), big, []byte("small"), big)
	require.NoError(t, err)
	require.Equal(t, uint64(3), id, "more than one batch can hold")
	s := p.ready("HELLO(0,0)", welcomes(0, 0))
	for _, want := range []string{string(big), "small", string(big)} {
		req := s.request()
		require.LessOrEqual(t, len(req.Payload), MaxBatch)
		require.True(t, strings.HasSuffix(word(req), ":"+want))
	}
	s.say(fmt.Sprint("ACK ", id))
	require.NoError(t, c.Flush(t.Context()))
}
