package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/config"
)

// follower is a sender whose lines stay in its batch, with one file that was read to its end.
func follower(t *testing.T, text string) (s *sender, path string, log *bytes.Buffer) {
	path = filepath.Join(t.TempDir(), "log")
	addTo(t, path, text)
	files, err := openSource([]string{path}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { files.files[0].close() })
	log = new(bytes.Buffer)
	s = &sender{
		o: &config.Send{Follow: true, Window: 1000}, log: slog.New(slog.NewTextHandler(log, nil)), source: files,
		reading: context.Background(), running: context.Background(),
	}
	require.NoError(t, s.readFile(files.files[0], true))
	return s, path, log
}

func addTo(t *testing.T, path, text string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// looks is what readOn does at some ticks; it yields all lines so far.
func (s *sender) looks(t *testing.T, times int) string {
	for range times {
		require.NoError(t, s.readMore(s.source.files[0]))
	}
	return string(bytes.Join(s.batch, []byte("|")))
}

// A line that is appended and whose file is moved away before the next look is not lost, nor is a last one without an
// end, nor one by a writer that changes over late.
func TestFollowRotation(t *testing.T) {
	s, path, log := follower(t, "one\n")
	addTo(t, path, "two\nthr")
	require.NoError(t, os.Rename(path, path+".1"))
	require.Equal(t, "one|two", s.looks(t, 3), "there is no other file yet")
	addTo(t, path, "new one\nnew")
	require.Equal(t, "one|two", s.looks(t, 1), "the writer may not have changed over")
	addTo(t, path+".1", "ee\nfour")
	require.Equal(t, "one|two|three|four|new one", s.looks(t, 1))
	require.Contains(t, log.String(), path)
	addTo(t, path, " two\n")
	require.Equal(t, "one|two|three|four|new one|new two", s.looks(t, 1))

	addTo(t, path, "last\n")
	require.NoError(t, os.Rename(path, path+".2"))
	addTo(t, path, "newer\n")
	require.Equal(t, "one|two|three|four|new one|new two|last|newer", s.looks(t, 2))
}

// A file that is copied and cut is read from its beginning, and what was read of its last line is a line.
func TestFollowCut(t *testing.T) {
	s, path, _ := follower(t, "one\nhalf")
	require.NoError(t, os.Truncate(path, 0))
	addTo(t, path, "new\n")
	require.Equal(t, "one|half|new", s.looks(t, 1))
}

// What was rotated away while nothing ran can't be sent: it is said of which file, and how far it was read.
func TestSendRotatedMeanwhile(t *testing.T) {
	h := newHome(t)
	file := h.write("log", "one\n")
	run := func(want string) *command {
		c := h.send("--follow", file)
		require.NoError(t, c.Start())
		until(t, "it is sent", func() bool { return h.output() == want })
		require.NoError(t, c.Process.Signal(os.Interrupt))
		return c.ended(t, 0)
	}
	run("one\n")
	addTo(t, file, "not seen\n")
	require.NoError(t, os.Rename(file, file+".1"))
	addTo(t, file, "new\n")
	c := run("one\nnew\n")
	require.Contains(t, c.err.String(), "is not sent, and has to be sent by itself")
	require.Contains(t, c.err.String(), "file: "+file)
	require.Contains(t, c.err.String(), "bytes: 4")
	require.NotContains(t, c.err.String(), "going on where that ended")
}

// What the ingress refuses for good ends a send that waits for more to read.
func TestSendRefusedWhileWaiting(t *testing.T) {
	h := newHome(t)
	refused := func(c *command) {
		c.ended(t, 1)
		require.Contains(t, c.err.String(), "AUTH_FAILED")
		require.Contains(t, c.err.String(), "1 records are not acknowledged and stay in the buffer")
	}
	follow := h.send("--token", "wrong", "--follow", "--buffer", h.path("one"), h.write("log", "one\n"))
	require.NoError(t, follow.Start())
	refused(follow)

	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	stdin := h.send("--token", "wrong", "--buffer", h.path("two"), "-")
	stdin.Cmd.Stdin = r
	require.NoError(t, stdin.Start())
	_, err = w.WriteString("one\n")
	require.NoError(t, err)
	refused(stdin)
}

// The client's reason comes first; a signal counts when nothing else is wrong.
func TestWhyItEnded(t *testing.T) {
	refused, unread := errors.New("refused"), errors.New("unread")
	for _, c := range []struct {
		client, reader error
		want           string
	}{
		{refused, nil, "refused"},
		{refused, fmt.Errorf("sending: %w", refused), "sending: refused"},
		{refused, context.Canceled, "refused"},
		{refused, unread, "refused\nunread"},
		{context.Canceled, unread, "unread"},
		{context.Canceled, nil, "context canceled"},
	} {
		require.EqualError(t, why(c.client, c.reader), c.want)
	}
}

// A buffer that is damaged before its end is left as it is, and nothing is sent.
func TestSendDamagedBuffer(t *testing.T) {
	h := newHome(t)
	for _, text := range []string{"one\n", "two\n"} {
		h.send("--buffer", h.path("buffer"), h.write("log", text)).ends(t, 0)
	}
	journal := h.path("buffer/journal.0000000000000000001")
	text, err := os.ReadFile(journal)
	require.NoError(t, err)
	text[bytes.Index(text, []byte("one"))] ^= 1
	require.NoError(t, os.WriteFile(journal, text, 0o600))
	c := h.send("--buffer", h.path("buffer"), h.write("log", "three\n")).ends(t, 1)
	require.Contains(t, c.err.String(), journal+": damaged at offset ")
	after, err := os.ReadFile(journal)
	require.NoError(t, err)
	require.Equal(t, text, after)
	require.Equal(t, "one\ntwo\n", h.output())
}
