package collector

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// GOAWAY: nothing more is sent, what comes is taken, and the next connection comes when the ingress said.
func TestClient2GoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer2(t)
		c := startClient(t, p.piped())
		require.NoError(t, send(c, []byte("a")))
		s := p.ready("HELLO(0,0)", welcomes(0, 0))
		s.expect("1:a")
		s.say("GOAWAY 12345 restart")
		synctest.Wait()
		require.NoError(t, send(c, []byte("b")))
		s.say("ACK 1")
		require.NoError(t, c.Wait(t.Context(), 1))
		before := time.Now()
		s.conn.Close()
		s = p.ready("HELLO(2,3)", welcomes(1, 1))
		require.Equal(t, 12345*time.Millisecond, time.Since(before))
		s.expect("2:b")
		go s.serve()
		s.say("ACK 2")
		require.NoError(t, c.Flush(t.Context()))
	})
}

// An ingress that says GOAWAY and stays is left.
func TestClient2LeavesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer2(t)
		c := startClient(t, p.piped())
		require.NoError(t, send(c, []byte("a")))
		s := p.ready("HELLO(0,0)", welcomes(0, 0))
		s.expect("1:a")
		s.say("GOAWAY 0 restart")
		before := time.Now()
		for word(s.request()) == "PING" {
			s.say("PONG")
		}
		require.Equal(t, time.Minute, time.Since(before))
		s = p.ready("HELLO(1,2)", welcomes(0, 1))
		go s.serve()
		s.say("ACK 1")
		require.NoError(t, c.Flush(t.Context()))
	})
}

// What is lost for good is said.
func TestClient2Lost(t *testing.T) {
	p := newPeer2(t)
	o := p.options()
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	c := startClient(t, o)
	require.NoError(t, send(c, []byte("a")))
	w := welcomes(0, 9)
	w.Lost = []protocol.Range{{First: 4, Last: 9}}
	s := p.ready("HELLO(0,0)", w)
	go s.serve()
	require.NoError(t, c.Flush(t.Context()))
	require.NoError(t, c.Close())
	require.Contains(t, log.String(), "[{First:4 Last:9}]")
}

// REJECTED is tried again for a while: our own last connection may linger. Then it is fatal.
func TestClient2Rejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer2(t)
		c := startClient(t, p.piped())
		require.NoError(t, send(c, []byte("a")))
		begin := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- c.Flush(t.Context()) }()
		for {
			select {
			case s := <-p.conns:
				s.expect("HELLO(0,0)")
				s.say("ERROR REJECTED x")
				s.conn.Close()
				continue
			case err := <-ended:
				require.ErrorIs(t, err, ErrRejected)
			}
			break
		}
		require.InDelta(t, 2*time.Minute, time.Since(begin), float64(6*time.Second))
	})
}

// The context of Dial ends the client.
func TestClient2ContextOfDial(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	p := newPeer2(t)
	c, err := Dial(ctx, p.options())
	require.NoError(t, err)
	require.NoError(t, send(c, []byte("a")))
	s := p.ready("HELLO(0,0)", welcomes(0, 0))
	why := errors.New("the program ends")
	cancel(why)
	require.ErrorIs(t, c.Flush(t.Context()), why)
	<-c.Done()
	require.NoError(t, c.Close())
	s.expect("1:a", "the end")
}
