package server

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConversation(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c := ts.dial()
	c.send("__AUTH__:tok-A", "__BATCH__:1:a:b::c:", "__BATCH__:2:", "__COMMIT__:2")
	for _, want := range []string{"ACK", "RECEIVED", "RECEIVED"} {
		require.Equal(t, want, c.reply())
	}
	require.Contains(t, []string{"PENDING", "ACK:2"}, c.reply())
	c.eventually(2, "ACK:2")
	require.Equal(t, []string{"a/a:b::c:", "a/"}, w.durable())
}

func TestShutdownDrains(t *testing.T) {
	w := newWorld()
	ts := start(t, w, nil)
	c := ts.login()
	for _, line := range []string{"__BATCH__:1:x", "__BATCH__:2:y", "__BATCH__:3:z"} {
		c.expect(line, "RECEIVED")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, ts.Shutdown(ctx))
	require.ErrorIs(t, <-ts.served, ErrClosed)
	c.closed()
	require.Equal(t, []string{"a/x", "a/y", "a/z"}, w.durable())
	require.Equal(t, uint64(3), w.stored.Images["a"].Watermark)
}
