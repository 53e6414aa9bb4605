package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/internal/daemon"
	"github.com/tidemark/tidemark/protocol"
)

// programs is the folder of the binaries that all tests here run.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "tidemarkd-test-"); err == nil {
		err = daemon.Build(context.Background(), programs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// home is a folder with the flags that make a server use it, on free ports.
type home struct {
	t   *testing.T
	dir string
}

func newHome(t *testing.T) *home { return &home{t, t.TempDir()} }

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

func (h *home) flags(more ...string) []string {
	return append([]string{
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", h.path("data"), "--sink", "file:" + h.path("out.log"),
		"--token", "a=tok-A",
	}, more...)
}

// launch starts a server that may not become ready.
func (h *home) launch(more ...string) *daemon.Process {
	h.t.Helper()
	p, err := daemon.Launch(nil, programs, h.flags(more...)...)
	require.NoError(h.t, err)
	h.t.Cleanup(p.Kill)
	return p
}

func (h *home) start(more ...string) *daemon.Process {
	h.t.Helper()
	p := h.launch(more...)
	require.NoError(h.t, p.Ready())
	return p
}

// fails runs a server that can't start: exit code 1, and the last line says why.
func (h *home) fails(words []string, more ...string) {
	h.t.Helper()
	p := h.launch(more...)
	require.Equal(h.t, 1, p.Wait(), p.Log())
	lines := strings.Split(strings.TrimSpace(p.Log()), "\n")
	last := lines[len(lines)-1]
	require.True(h.t, strings.HasPrefix(last, "tidemarkd: "), p.Log())
	for _, word := range words {
		require.Contains(h.t, last, word)
	}
}

func (h *home) read(name string) string {
	h.t.Helper()
	text, err := os.ReadFile(h.path(name))
	require.NoError(h.t, err)
	return string(text)
}

// converse sends text on a connection of its own, as nc -N does, and yields all that is answered.
func converse(t *testing.T, p *daemon.Process, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address)
	require.NoError(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = conn.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	var answer bytes.Buffer
	_, err = answer.ReadFrom(conn)
	require.NoError(t, err)
	return answer.String()
}

func TestConversation(t *testing.T) {
	h := newHome(t)
	p := h.start()
	require.Regexp(t, "^ACK\nRECEIVED\nRECEIVED\n(PENDING|ACK:2)\n$",
		converse(t, p, "__AUTH__:tok-A\n__BATCH__:1:a:b::c:\n__BATCH__:2:\n__COMMIT__:2\n"))
	require.NoError(t, p.Stop())
	require.Equal(t, "a:b::c:\n\n", h.read("out.log"))
	require.Contains(t, p.Log(), `"msg":"stopped"`)
}

// Wrong usage names the option, the value and what is allowed, and nothing is made on the disk.
func TestUsage(t *testing.T) {
	h := newHome(t)
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--queue-capacity", "0"}, []string{"--queue-capacity", `"0"`, "1 to 1048576"}},
		{[]string{"--listen", "nowhere"}, []string{"--listen", `"nowhere"`, "HOST:PORT"}},
		{[]string{"--sink", "mongo:x"}, []string{"--sink", `"mongo:x"`, "file:PATH"}},
		{[]string{"--backpressure-ratio", "1.5"}, []string{"--backpressure-ratio", `"1.5"`, "at most 1"}},
		{[]string{"--history", "10"}, []string{"--history", `"10"`, "--ahead, which is 4096"}},
		{[]string{"--bind-retries=-2"}, []string{"--bind-retries", `"-2"`, "-1 to"}},
		{[]string{"--received", "maybe"}, []string{"--received", `"maybe"`, "queued or durable"}},
		{[]string{"--no-such-flag"}, []string{"--no-such-flag"}},
		{[]string{"argument"}, []string{"argument"}},
		{[]string{"--config", h.path("none.yaml")}, []string{"--config", "none.yaml", "no such file"}},
		{[]string{"--packet-mode", "PACKET", "--secret-key-file", h.path("none.key")}, []string{"--secret-key-file", "none.key"}},
	} {
		p := h.launch(c.args...)
		require.Equal(t, 2, p.Wait(), c.args)
		for _, word := range c.words {
			require.Contains(t, p.Log(), word)
		}
		require.Equal(t, 1, strings.Count(p.Log(), "\n"), "one line: %s", p.Log())
	}
	require.NoFileExists(t, h.path("data"))
	require.NoFileExists(t, h.path("out.log"))
}

func TestHelp(t *testing.T) {
	for flag, want := range map[string]string{"--help": "--backpressure-ratio", "--version": "go1."} {
		out, err := exec.Command(filepath.Join(programs, "tidemarkd"), flag).Output()
		require.NoError(t, err)
		require.Contains(t, string(out), want)
	}
}

// Without any flag, in an empty folder, it works: one token is made, and each start has and prints it, once.
func TestWithoutFlags(t *testing.T) {
	h := newHome(t)
	seen := ""
	for range 2 {
		cmd := exec.Command(filepath.Join(programs, "tidemarkd"))
		cmd.Dir = h.dir
		cmd.Env = append(os.Environ(), "TIDEMARK_LISTEN=127.0.0.1:0", "TIDEMARK_HTTP=127.0.0.1:0") // the default ports may be taken
		log := h.path("log")
		f, err := os.Create(log)
		require.NoError(t, err)
		cmd.Stderr = f
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		until(t, "it listens", func() bool { return strings.Contains(h.read("log"), `"msg":"listening"`) })
		command := regexp.MustCompile(`tidemark send --to (127\.0\.0\.1:\d+) --collector default --token (\S+) FILE`)
		found := command.FindAllStringSubmatch(h.read("log"), -1)
		require.Len(t, found, 1, "printed once: %s", h.read("log"))
		require.Equal(t, 1, strings.Count(h.read("log"), found[0][2]))
		p := &daemon.Process{Address: found[0][1]}
		require.Equal(t, "ACK\nRECEIVED\n", converse(t, p, "__AUTH__:"+found[0][2]+"\n__BATCH__:1:hello\n"))
		if seen != "" {
			require.Equal(t, seen, found[0][2])
		}
		seen = found[0][2]
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
		require.NoError(t, f.Close())
	}
	require.Equal(t, "hello\n", h.read("tidemark-out.log"))
	info, err := os.Stat(h.path("tidemark-data/default.token"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// until waits for a condition, with a deadline.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(t, "waited in vain until "+what)
		}
	}
}

func TestTokenFile(t *testing.T) {
	h := newHome(t)
	require.NoError(t, os.WriteFile(h.path("tokens"), []byte("# people\nb=tok-B\n"), 0o644))
	flags := h.flags("--token-file", h.path("tokens"))
	at := len(h.flags()) - 2
	p, err := daemon.Start(programs, append(flags[:at:at], flags[at+2:]...)...)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	require.Equal(t, "ACK\n", converse(t, p, "__AUTH__:tok-B\n"))
	require.Equal(t, "AUTH_FAILED\n", converse(t, p, "__AUTH__:tok-A\n"))
	require.Contains(t, p.Log(), "chmod o-r")
	require.NotContains(t, p.Log(), "tok-B")
}

func TestPackets(t *testing.T) {
	h := newHome(t)
	key := bytes.Repeat([]byte{7}, 32)
	require.NoError(t, os.WriteFile(h.path("key"), []byte("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n"), 0o600))
	encoder, err := protocol.NewPacketEncoder(protocol.CompressionGzip, key, nil)
	require.NoError(t, err)
	packet, err := encoder.Append(nil, []byte("secret record"))
	require.NoError(t, err)
	p := h.start("--packet-mode", "PACKET", "--secret-key-file", h.path("key"))
	require.NotContains(t, p.Log(), "chmod")
	require.Equal(t, "ACK\nRECEIVED\nDECODE_FAILED\n",
		converse(t, p, "__AUTH__:tok-A\n__BATCH__:1:"+string(packet)+"\n__BATCH__:2:plain\n"))
	require.NoError(t, p.Stop())
	require.Equal(t, "secret record\n", h.read("out.log"))
}

func TestStdout(t *testing.T) {
	h := newHome(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := daemon.Launch(w, programs, h.flags("--sink", "stdout:")...)
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	require.NoError(t, w.Close())
	require.NoError(t, p.Ready())
	converse(t, p, "__AUTH__:tok-A\n__BATCH__:1:to be read\n")
	require.NoError(t, p.Stop())
	var out bytes.Buffer
	_, err = out.ReadFrom(r)
	require.NoError(t, err)
	require.Equal(t, "to be read\n", out.String())
}

// The back-pressure ratio rounds up.
func TestReduced(t *testing.T) {
	require.Equal(t, int64(922), reduced(1024, 0.9))
	require.Equal(t, int64(1), reduced(1, 0.01))
	require.Equal(t, int64(1024), reduced(1024, 1))
	require.Equal(t, int64(1<<40), reduced(1<<40, 1))
}
