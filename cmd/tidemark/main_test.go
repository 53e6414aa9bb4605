package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/internal/daemon"
)

// programs is the folder of the binaries that all tests here run.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "tidemark-test-"); err == nil {
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

// home is a folder with a server, and what commands need to know of it.
type home struct {
	t      *testing.T
	dir    string
	server *daemon.Process
}

func newHome(t *testing.T) *home {
	h := &home{t: t, dir: t.TempDir()}
	h.serve("127.0.0.1:0")
	return h
}

func (h *home) serve(address string, more ...string) {
	h.t.Helper()
	var err error
	h.server, err = daemon.Start(programs, append([]string{
		"--listen", address, "--http", "127.0.0.1:0", "--data-dir", h.path("data"), "--sink", "file:" + h.path("out.log"),
		"--token", "a=tok-A", "--bind-interval", "20ms", "--bind-retries", "100",
	}, more...)...)
	require.NoError(h.t, err)
	h.t.Cleanup(h.server.Kill)
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

func (h *home) write(name, text string) string {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(h.path(name), []byte(text), 0o600))
	return h.path(name)
}

// output is what the sink holds.
func (h *home) output() string {
	h.t.Helper()
	text, err := os.ReadFile(h.path("out.log"))
	require.NoError(h.t, err)
	return string(text)
}

// command is `tidemark` with arguments. Its buffers go to this folder.
type command struct {
	*exec.Cmd
	home     *home
	out, err bytes.Buffer
}

func (h *home) command(args ...string) *command {
	c := &command{home: h, Cmd: exec.Command(filepath.Join(programs, "tidemark"), args...)}
	c.Dir, c.Stdout, c.Stderr = h.dir, &c.out, &c.err
	c.Env = append(os.Environ(), "XDG_STATE_HOME="+h.path("state"))
	h.t.Cleanup(func() {
		if c.Process != nil && c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return c
}

// send is `tidemark send` to the server.
func (h *home) send(args ...string) *command {
	return h.command(append([]string{"send", "--to", h.server.Address, "--collector", "a", "--token", "tok-A", "--retry-min", "1ms"}, args...)...)
}

// ends runs the command and checks its exit code.
func (c *command) ends(t *testing.T, code int) *command {
	t.Helper()
	require.NoError(t, c.Start())
	return c.ended(t, code)
}

// ended waits for the end of a command that was started, and checks its exit code.
func (c *command) ended(t *testing.T, code int) *command {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
	defer late.Stop()
	c.Wait()
	log := ""
	if c.home.server != nil {
		log = c.home.server.Log()
	}
	require.Equal(t, code, c.ProcessState.ExitCode(), "the command said:\n%s\nthe server said:\n%s", &c.err, log)
	return c
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
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

// A second file goes on where the first ended; bytes survive as they are.
func TestSend(t *testing.T) {
	h := newHome(t)
	first := "tab\there\n\ncr\r\ncolon:a::b\n\xff\x00binary\n" + strings.Repeat("long", 200_000) + "\n"
	c := h.send("--json", h.write("one", first)).ends(t, 0)
	var summary map[string]float64
	require.NoError(t, json.Unmarshal(c.out.Bytes(), &summary))
	require.Positive(t, summary["seconds"])
	delete(summary, "seconds")
	require.Equal(t, map[string]float64{"records": 6, "acknowledged": 6, "sent": 6, "resent": 0, "reconnects": 0}, summary)
	require.Equal(t, first, h.output())

	c = h.send(h.write("two", "x\nno end"), h.write("empty", ""), h.write("three", "y\n")).ends(t, 0)
	require.Contains(t, c.err.String(), "3 records, 3 acknowledged")
	require.Empty(t, c.out.String())
	require.Equal(t, first+"x\nno end\ny\n", h.output())

	stdin := h.send("-")
	stdin.Stdin = strings.NewReader("from stdin\n")
	stdin.ends(t, 0)
	require.Equal(t, first+"x\nno end\ny\nfrom stdin\n", h.output())
	require.DirExists(t, h.path("state/tidemark"))
}

func TestSendUsage(t *testing.T) {
	h := newHome(t)
	file := h.write("file", "x\n")
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"send", file}, []string{"--to"}},
		{[]string{"send", "--to", "nowhere", "--collector", "a", "--token", "t", file}, []string{"--to", `"nowhere"`, "HOST:PORT"}},
		{[]string{"send", "--to", "h:1", "--collector", "a b", "--token", "t", file}, []string{"--collector", `"a b"`, "letters"}},
		{[]string{"send", "--to", "h:1", "--collector", "a", file}, []string{"--token", "TIDEMARK_TOKEN"}},
		{[]string{"send", "--to", "h:1", "--collector", "a", "--token-file", h.path("none"), file}, []string{"--token-file", "none"}},
		{[]string{"send", "--to", "h:1", "--collector", "a", "--token", "t", "--window", "5000", file}, []string{"--window", `"5000"`, "1 to 4096"}},
		{[]string{"send", "--to", "h:1", "--collector", "a", "--token", "t", "--dialect", "3", file}, []string{"--dialect", `"3"`, "1 to 2"}},
		{[]string{"send", "--to", "h:1", "--collector", "a", "--token", "t", "--batch", "0", file}, []string{"--batch", `"0"`}},
		{[]string{"send", "--to", "h:1", "--collector", "a", "--token", "t", h.path("none")}, []string{"FILE", "none", "no such file"}},
		{[]string{"send", "--to", "h:1", "--collector", "a", "--token", "t", h.dir}, []string{"FILE", h.dir, "directory"}},
		{[]string{"send", "--to", "h:1", "--collector", "a", "--token", "t"}, []string{"FILE"}},
		{[]string{"forget", "a"}, []string{"--below"}},
		{[]string{"forget", "a", "--below", "0", "--yes"}, []string{"--below", `"0"`, "from 1"}},
		{[]string{"forget", "a", "--below", "5"}, []string{"--yes", "not a terminal"}},
		{[]string{"streams", "--http", "nowhere"}, []string{"--http", `"nowhere"`, "HOST:PORT"}},
		{[]string{"no-such-command"}, []string{"no-such-command"}},
		{nil, []string{"send"}},
	} {
		cmd := h.command(c.args...).ends(t, 2)
		for _, word := range c.words {
			require.Contains(t, cmd.err.String(), word, c.args)
		}
	}
	require.NoDirExists(t, h.path("state"))
}

func TestSendTokens(t *testing.T) {
	h := newHome(t)
	file := h.write("file", "x\n")
	base := []string{"send", "--to", h.server.Address, "--collector", "a"}
	h.command(append(base, "--token-file", h.write("token", "tok-A\n"), file)...).ends(t, 0)
	env := h.command(append(base, file)...)
	env.Env = append(env.Env, "TIDEMARK_TOKEN=tok-A")
	env.ends(t, 0)
	wrong := h.command(append(base, "--token", "wrong", file)...).ends(t, 1)
	require.Contains(t, wrong.err.String(), "AUTH_FAILED")
	require.Contains(t, wrong.err.String(), "1 records are not acknowledged and stay in the buffer")
	h.send(h.write("last", "y\n")).ends(t, 0)
	require.Equal(t, "x\nx\nx\ny\n", h.output(), "the next send goes on with what was left")
}

// A line that can't be sent is named; what comes before it is sent, and nothing of it.
func TestSendLongLine(t *testing.T) {
	h := newHome(t)
	long := strings.Repeat("x", 4<<20)
	for _, text := range []string{"ok\n" + long + "\nafter\n", "ok\n" + long} {
		file := h.write("file", text)
		c := h.send("--dialect", "1", "--buffer", "none", file).ends(t, 1)
		require.Contains(t, c.err.String(), file+":2: the line")
		require.Contains(t, c.err.String(), "4194274")
		require.Equal(t, "ok\n", h.output())
	}
	fits := strings.Repeat("y", 4194274)
	h.send("--dialect", "1", "--buffer", h.path("buffer"), h.write("file", "ok\n"+fits+"\n")).ends(t, 0)
	require.Equal(t, "ok\n"+fits+"\n", h.output())
}

// The numbers of a lost buffer are taken: it is said which record, and what to do.
func TestSendConflict(t *testing.T) {
	h := newHome(t)
	h.send("--dialect", "1", "--buffer", "none", h.write("one", "first\n")).ends(t, 0)
	c := h.send("--dialect", "1", "--buffer", "none", h.write("two", "second\n")).ends(t, 1)
	require.Contains(t, c.err.String(), `record 1 ("second"): CONFLICT`)
	require.Contains(t, c.err.String(), "another collector name")
	require.Equal(t, "first\n", h.output())
}

// many is a text of numbered lines.
func many(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	return text.String()
}

// The server is killed under a send, which does not notice more than a wait.
func TestSendThroughServerKill(t *testing.T) {
	h := newHome(t)
	text := many(40_000)
	c := h.send("--json", h.write("file", text))
	require.NoError(t, c.Start())
	until(t, "some are there", func() bool { return len(h.output()) > 1000 })
	h.server.Kill()
	h.serve(h.server.Address)
	c.ended(t, 0)
	require.Contains(t, c.out.String(), `"records":40000,"acknowledged":40000`)
	require.Equal(t, text, h.output())
}

// A send is killed; the same command again sends the rest, and each line is there once.
func TestSendKilledGoesOn(t *testing.T) {
	h := newHome(t)
	one, two := many(30_000), many(20_000)
	files := []string{h.write("one", one), h.write("two", two)}
	for _, enough := range []int{1000, len(one) / 2, len(one) + len(two)/2} {
		c := h.send(append([]string{"--batch", "10", "--window", "4"}, files...)...) // slowly
		require.NoError(t, c.Start())
		until(t, "some are there", func() bool { return len(h.output()) > enough })
		require.NoError(t, c.Process.Kill())
		c.Wait()
	}
	c := h.send(files...).ends(t, 0)
	require.Contains(t, c.err.String(), "going on where that ended")
	require.Equal(t, one+two, h.output())
	h.send(files[1]).ends(t, 0)
	require.Equal(t, one+two+two, h.output(), "a send that came to its end is over")
}

// Without a server a send waits. A signal ends it; what it had read stays in the buffer, also for a send of other files.
func TestSendInterrupted(t *testing.T) {
	h := newHome(t)
	require.NoError(t, h.server.Stop())
	c := h.send(h.write("one", "first\n"))
	require.NoError(t, c.Start())
	until(t, "it has stored what it read", func() bool {
		text, _ := os.ReadFile(h.path("state/tidemark/" + strings.ReplaceAll(h.server.Address, ":", "%3A") + "/a/journal.0000000000000000001"))
		return bytes.Contains(text, []byte("first"))
	})
	require.NoError(t, c.Process.Signal(os.Interrupt))
	c.ended(t, 1)
	require.Contains(t, c.err.String(), "interrupted; 1 records are not acknowledged and stay in the buffer")
	h.serve(h.server.Address)
	c = h.send(h.write("two", "second\n")).ends(t, 0)
	require.Contains(t, c.err.String(), "did not come to its end")
	require.Equal(t, "first\nsecond\n", h.output())
}

// Reading standard input can't be called off, and still a signal ends the send.
func TestSendInterruptedStdin(t *testing.T) {
	h := newHome(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	c := h.send("-")
	c.Cmd.Stdin = r
	require.NoError(t, c.Start())
	_, err = w.WriteString("at once\n")
	require.NoError(t, err)
	until(t, "a line is sent without waiting for more", func() bool { return h.output() == "at once\n" })
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	c.ended(t, 1) // the input had not ended
}

func TestSendBufferInUse(t *testing.T) {
	h := newHome(t)
	file := h.write("file", "x\n")
	c := h.send("--follow", "--buffer", h.path("buffer"), file)
	require.NoError(t, c.Start())
	until(t, "it is sent", func() bool { return h.output() == "x\n" })
	other := h.send("--buffer", h.path("buffer"), file).ends(t, 1)
	require.Contains(t, other.err.String(), "in use by another process")
}

// follow runs until a signal, sends what is appended, and goes on there the next time.
func TestSendFollow(t *testing.T) {
	h := newHome(t)
	file, other := h.write("log", "one\nhalf"), h.write("other", "other\n")
	add := func(text string) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	follow := func(change func(), want string) {
		c := h.send("--follow", file, other)
		require.NoError(t, c.Start())
		change()
		until(t, "it is sent", func() bool { return h.output() == want })
		require.NoError(t, c.Process.Signal(os.Interrupt))
		c.ended(t, 0)
	}
	follow(func() {
		until(t, "what is there is sent", func() bool { return h.output() == "one\nother\n" })
		add(" a line\n")
	}, "one\nother\nhalf a line\n")
	add("meanwhile\n")
	follow(func() { add("later\n") }, "one\nother\nhalf a line\nmeanwhile\nlater\n")
	want := "one\nother\nhalf a line\nmeanwhile\nlater\n"
	follow(func() {
		require.NoError(t, os.Rename(file, file+".1"))
		h.write("log", "rotated\n")
	}, want+"rotated\n")
}

func TestVersion(t *testing.T) {
	h := &home{t: t, dir: t.TempDir()}
	require.Contains(t, h.command("version").ends(t, 0).out.String(), "go1.")
	require.Contains(t, h.command("--help").ends(t, 0).out.String(), "inspect")
	require.Contains(t, h.command("send", "--help").ends(t, 0).out.String(), "--collector")
}
