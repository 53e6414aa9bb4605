package collector_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/collector"
	"github.com/tidemark/tidemark/server"
	"github.com/tidemark/tidemark/server/sink/file"
	"github.com/tidemark/tidemark/server/store/checkpointlog"
	"github.com/tidemark/tidemark/statemachine"
)

// ingress is the real server on a loopback port, with its files in a folder that outlives it.
type ingress struct {
	t       *testing.T
	dir     string
	server  *server.Server
	address atomic.Value // string
}

func (in *ingress) output() string { return filepath.Join(in.dir, "out.log") }

func (in *ingress) start() {
	store, err := checkpointlog.Open(filepath.Join(in.dir, "data"), checkpointlog.Options{})
	require.NoError(in.t, err)
	sink, err := file.Open(file.Options{Path: in.output()})
	require.NoError(in.t, err)
	limits := statemachine.DefaultLimits()
	limits.QueueCapacity = 100 // less than the window: QUEUE_FULL happens
	in.server, err = server.New(in.t.Context(), server.Options{
		Sink: sink, Store: store, Auth: server.Tokens(map[string]string{"token": "a"}), Limits: limits,
		Log: slog.New(slog.DiscardHandler), RetryAfter: 2 * time.Millisecond,
	})
	require.NoError(in.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(in.t, err)
	in.address.Store(l.Addr().String())
	go in.server.Serve(l)
}

// crash ends the server at once: what is not checkpointed is gone.
func (in *ingress) crash() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	in.server.Shutdown(ctx)
}

func (in *ingress) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", in.address.Load().(string))
}

// The client against the real server over TCP, while the server ends and starts again: each record once, in order.
func TestClientThroughCrashes(t *testing.T) {
	in := &ingress{t: t, dir: t.TempDir()}
	in.start()
	c, err := collector.New(collector.Options{
		Token: "token", Dial: in.dial, Backoff: collector.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
	})
	require.NoError(t, err)
	defer c.Close()
	var want strings.Builder
	for life := range 5 {
		for i := range 500 {
			record := fmt.Sprintf("life %d record %d:%s\r", life, i, strings.Repeat("x", i))
			want.WriteString(record + "\n")
			require.NoError(t, c.Send(t.Context(), []byte(record)))
		}
		in.crash()
		in.start()
	}
	require.NoError(t, c.Wait(t.Context()))
	status := c.Status()
	require.Equal(t, uint64(2500), status.Acknowledged)
	require.Positive(t, status.Reconnects)
	require.NoError(t, in.server.Shutdown(t.Context()))
	got, err := os.ReadFile(in.output())
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got))
}
