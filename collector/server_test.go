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
	for _, dialect := range []int{1, 2} {
		for _, durable := range []bool{false, true} {
			t.Run(fmt.Sprintf("dialect %d journal %v", dialect, durable), func(t *testing.T) { throughCrashes(t, dialect, durable) })
		}
	}
}

func throughCrashes(t *testing.T, dialect int, durable bool) {
	in := &ingress{t: t, dir: t.TempDir()}
	in.start()
	o := collector.Options{
		Dialect: dialect, Collector: "a", Token: "token", Dial: in.dial,
		Backoff: collector.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
	}
	if durable {
		journal, err := collector.OpenJournal(t.TempDir(), collector.JournalOptions{SegmentBytes: 50_000})
		require.NoError(t, err)
		o.Journal = journal
	}
	c, err := collector.Dial(t.Context(), o)
	require.NoError(t, err)
	defer c.Close()
	var want strings.Builder
	const calls = 100
	for life := range 5 {
		for i := range calls {
			var records [][]byte
			for j := range 5 {
				record := fmt.Sprintf("life %d record %d.%d:%s\r", life, i, j, strings.Repeat("x", i))
				want.WriteString(record + "\n")
				records = append(records, []byte(record))
			}
			id, err := c.Send(t.Context(), records...)
			require.NoError(t, err)
			if i == 0 { // each life has a connection
				require.NoError(t, c.Wait(t.Context(), id))
			}
		}
		in.crash()
		in.start()
	}
	require.NoError(t, c.Flush(t.Context()))
	status := c.Status()
	require.Equal(t, uint64(5*calls*5), status.Acknowledged)
	require.Positive(t, status.Reconnects)
	require.Zero(t, status.Renewals)
	require.NoError(t, c.Close())
	require.NoError(t, in.server.Shutdown(t.Context()))
	got, err := os.ReadFile(in.output())
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got))
}

// The process starts anew on its disk, and once on an older copy of it, which does not know that numbers were used since:
// nothing is lost, and nothing taken for what came under those numbers.
func TestClientOnAnOlderDisk(t *testing.T) {
	in := &ingress{t: t, dir: t.TempDir()}
	in.start()
	dir := filepath.Join(t.TempDir(), "buffer")
	life := func(dir, text string) collector.Status {
		journal, err := collector.OpenJournal(dir, collector.JournalOptions{})
		require.NoError(t, err)
		c, err := collector.Dial(t.Context(), collector.Options{Collector: "a", Token: "token", Dial: in.dial, Journal: journal})
		require.NoError(t, err)
		for i := range 3 {
			_, err := c.Send(t.Context(), fmt.Appendf(nil, "%s %d", text, i))
			require.NoError(t, err)
		}
		require.NoError(t, c.Flush(t.Context()))
		require.NoError(t, c.Close())
		return c.Status()
	}
	require.Zero(t, life(dir, "a").Renewals)
	older := filepath.Join(t.TempDir(), "older")
	require.NoError(t, os.CopyFS(older, os.DirFS(dir)))
	require.Zero(t, life(dir, "b").Renewals)
	in.crash()
	in.start()
	require.Equal(t, uint64(1), life(older, "c").Renewals, "the numbers of b are taken")
	require.Zero(t, life(older, "d").Renewals)
	require.NoError(t, in.server.Shutdown(t.Context()))
	got, err := os.ReadFile(in.output())
	require.NoError(t, err)
	require.Equal(t, "a 0\na 1\na 2\nb 0\nb 1\nb 2\nc 0\nc 1\nc 2\nd 0\nd 1\nd 2\n", string(got))
}
