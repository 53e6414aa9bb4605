package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/internal/daemon"
)

// filled is a home whose server took some records in several checkpoints, and was stopped.
func filled(t *testing.T) *home {
	h := newHome(t)
	p := h.start()
	for i := range 3 {
		require.Equal(t, "ACK\nRECEIVED\n", converse(t, p, fmt.Sprintf("__AUTH__:tok-A\n__BATCH__:%d:record %d\n", i+1, i+1)))
		until(t, "it is on disk", func() bool { return strings.Count(h.read("out.log"), "\n") == i+1 })
	}
	require.NoError(t, p.Stop())
	return h
}

const filledText = "record 1\nrecord 2\nrecord 3\n"

func TestRestartGoesOn(t *testing.T) {
	h := filled(t)
	p := h.start()
	require.Equal(t, "ACK\nRECEIVED\nRECEIVED\nCONFLICT\n",
		converse(t, p, "__AUTH__:tok-A\n__BATCH__:3:record 3\n__BATCH__:4:record 4\n__BATCH__:2:other\n"))
	require.NoError(t, p.Stop())
	require.Equal(t, filledText+"record 4\n", h.read("out.log"))
}

// What can't be right at the start is one clear line and exit code 1.
func TestStartFails(t *testing.T) {
	t.Run("data directory is a file", func(t *testing.T) {
		h := newHome(t)
		require.NoError(t, os.WriteFile(h.path("data"), nil, 0o600))
		h.fails([]string{h.path("data"), "not a directory"})
	})
	t.Run("data directory below a file", func(t *testing.T) {
		h := newHome(t)
		require.NoError(t, os.WriteFile(h.path("data"), nil, 0o600))
		h.fails([]string{h.path("data")}, "--data-dir", h.path("data/below"))
	})
	t.Run("data directory in use", func(t *testing.T) {
		h := newHome(t)
		h.start()
		h.fails([]string{"data directory", "in use by another process"}, "--sink", "file:"+h.path("other.log"))
	})
	t.Run("output file in use", func(t *testing.T) {
		h := newHome(t)
		h.start()
		h.fails([]string{"output file", "in use by another process"}, "--data-dir", h.path("other"))
	})
	t.Run("output file is a directory", func(t *testing.T) {
		h := newHome(t)
		require.NoError(t, os.Mkdir(h.path("out.log"), 0o700))
		h.fails([]string{h.path("out.log"), "directory"})
	})
	t.Run("http address taken", func(t *testing.T) {
		h := newHome(t)
		p := h.start()
		h.fails([]string{"--http " + p.HTTP, "address already in use"}, "--http", p.HTTP,
			"--data-dir", h.path("other"), "--sink", "file:"+h.path("other.log"))
	})
	t.Run("checkpoint log is none", func(t *testing.T) {
		h := newHome(t)
		require.NoError(t, os.Mkdir(h.path("data"), 0o700))
		require.NoError(t, os.WriteFile(h.path("data/checkpoint.log"), bytes.Repeat([]byte("x"), 1000), 0o600))
		h.fails([]string{h.path("data/checkpoint.log"), "offset 0"})
	})
}

// A damaged log and a changed output file stop the start; --recover is the operator's way out.
func TestRecover(t *testing.T) {
	damage := map[string]struct {
		do    func(h *home)
		words []string
	}{
		"damaged log": {func(h *home) {
			text := []byte(h.read("data/checkpoint.log"))
			text[100] ^= 1
			require.NoError(h.t, os.WriteFile(h.path("data/checkpoint.log"), text, 0o600))
		}, []string{"checkpoint.log", "damaged at offset"}},
		"output file shorter": {func(h *home) {
			require.NoError(h.t, os.Truncate(h.path("out.log"), 5))
		}, []string{"out.log"}},
		"output file changed": {func(h *home) {
			require.NoError(h.t, os.WriteFile(h.path("out.log"), []byte(strings.ToUpper(filledText)), 0o600))
		}, []string{"out.log"}},
		"output file gone": {func(h *home) {
			require.NoError(h.t, os.Remove(h.path("out.log")))
		}, []string{"out.log"}},
		"checkpoints gone": {func(h *home) {
			require.NoError(h.t, os.RemoveAll(h.path("data")))
		}, []string{"out.log"}},
	}
	for name, c := range damage {
		t.Run(name, func(t *testing.T) {
			h := filled(t)
			c.do(h)
			h.fails(append(c.words, "--recover"))
			require.NoError(t, h.start("--recover").Stop())
			p := h.start() // all is well then, though nothing was sent
			require.Equal(t, "ACK\nRECEIVED\n", converse(t, p, "__AUTH__:tok-A\n__BATCH__:4:record 4\n"))
			require.NoError(t, p.Stop())
			require.True(t, strings.HasSuffix(h.read("out.log"), "record 4\n"))
		})
	}
}

func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		h := newHome(t)
		p := h.start()
		idle, err := net.Dial("tcp", p.Address)
		require.NoError(t, err)
		defer idle.Close()
		require.Equal(t, "ACK\nRECEIVED\n", converse(t, p, "__AUTH__:tok-A\n__BATCH__:1:x\n"))
		require.NoError(t, p.Signal(sig))
		require.Zero(t, p.Wait(), p.Log())
		require.Equal(t, "x\n", h.read("out.log"), "what was RECEIVED is delivered")
	}
}

// stuck is a server whose sink takes nothing more: nobody reads its standard output.
func stuck(t *testing.T, more ...string) *daemon.Process {
	h := newHome(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	p, err := daemon.Launch(w, programs, h.flags(append(more, "--sink", "stdout:")...)...)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	require.NoError(t, p.Ready())
	large := strings.Repeat("x", 1<<20)
	require.Equal(t, "ACK\nRECEIVED\n", converse(t, p, "__AUTH__:tok-A\n__BATCH__:1:"+large+"\n"))
	return p
}

func TestSecondSignal(t *testing.T) {
	p := stuck(t, "--shutdown-timeout", "1h")
	require.NoError(t, p.Signal(syscall.SIGTERM))
	until(t, "it drains", func() bool { return strings.Contains(p.Log(), `"msg":"stopping"`) })
	begin := time.Now()
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Equal(t, 1, p.Wait())
	require.Contains(t, p.Log(), "second signal")
	require.Less(t, time.Since(begin), 10*time.Second)
}

func TestShutdownTimeout(t *testing.T) {
	p := stuck(t, "--shutdown-timeout", "50ms")
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Equal(t, 1, p.Wait(), "not everything was delivered")
	require.Contains(t, p.Log(), "tidemarkd: ")
}

func taken(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestBindRetriesEnd(t *testing.T) {
	h := newHome(t)
	l := taken(t)
	h.fails([]string{"--listen " + l.Addr().String(), "address already in use", "after 3 attempts"},
		"--listen", l.Addr().String(), "--bind-retries", "2", "--bind-interval", "1ms")
}

func TestBindRetriesForEver(t *testing.T) {
	h := newHome(t)
	l := taken(t)
	p := h.launch("--listen", l.Addr().String(), "--bind-retries", "-1", "--bind-interval", "1ms")
	until(t, "it has failed often", func() bool { return strings.Count(p.Log(), "can't be taken yet") > 10 })
	require.NoError(t, l.Close())
	require.NoError(t, p.Ready())
	require.Equal(t, l.Addr().String(), p.Address)
	require.NoError(t, p.Stop())
}

func TestSignalWhileBinding(t *testing.T) {
	h := newHome(t)
	p := h.launch("--listen", taken(t).Addr().String(), "--bind-retries=-1", "--bind-interval", "1h")
	until(t, "it waits", func() bool { return strings.Contains(p.Log(), "can't be taken yet") })
	require.NoError(t, p.Stop())
}
