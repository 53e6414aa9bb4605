package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/sink/file"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/server/store/checkpointlog"
)

// The server with its file sink and its checkpoint log, on a disk.

// files are a sink and a store on disk.
func files(t *testing.T, dir string) func(*Options) {
	return func(o *Options) {
		s, err := file.Open(file.Options{Path: filepath.Join(dir, "out.log")})
		require.NoError(t, err)
		l, err := checkpointlog.Open(filepath.Join(dir, "data"), checkpointlog.Options{})
		require.NoError(t, err)
		o.Sink, o.Store = s, l
	}
}

// A collector that keeps what is not acknowledged, and servers that are killed.
func TestB16FilesThroughRestarts(t *testing.T) {
	const n, perLife = 150, 30
	dir := t.TempDir()
	random := seeded(t)
	acked := 0
	for life := 1; acked < n; life++ {
		require.Less(t, life, 200)
		ts := start(t, newWorld(), files(t, dir))
		c := ts.login()
		for id := acked + 1; id <= min(n, acked+perLife); id++ { // all it holds, in order
			c.send(fmt.Sprintf("__BATCH__:%d:record %d", id, id), fmt.Sprintf("__COMMIT__:%d", id))
			require.Equal(t, "RECEIVED", c.reply())
			if reply := c.reply(); strings.HasPrefix(reply, "ACK:") {
				fmt.Sscanf(reply, "ACK:%d", &acked)
			}
			if random.IntN(perLife) == 0 {
				break
			}
		}
		ts.kill()
	}
	text, err := os.ReadFile(filepath.Join(dir, "out.log"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	require.Len(t, lines, n)
	for i, line := range lines {
		require.Equal(t, fmt.Sprintf("record %d", i+1), line)
	}
}

func TestB24NumbersThroughFiles(t *testing.T) {
	const odd, most = 9007199254740993, 9223372036854775807
	dir := t.TempDir()
	change := func(o *Options) {
		files(t, dir)(o)
		o.First = map[string]uint64{"a": odd, "b": most}
	}
	for range 3 {
		ts := start(t, newWorld(), change)
		a, b := ts.login(), ts.loginAs("tok-B")
		a.expect(fmt.Sprintf("__BATCH__:%d:odd", odd), "RECEIVED")
		b.expect(fmt.Sprintf("__BATCH__:%d:most", most), "RECEIVED")
		a.eventually(odd, fmt.Sprintf("ACK:%d", odd))
		b.eventually(most, fmt.Sprintf("ACK:%d", most))
		ts.kill()
	}
	text, err := os.ReadFile(filepath.Join(dir, "out.log"))
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	slices.Sort(lines)
	require.Equal(t, []string{"", "most", "odd"}, lines)
}

// A damaged checkpoint log is refused at start, or what is recovered is all that is answered from:
// never an ACK above it, and never a silent beginning at 0.
func TestB14DamagedCheckpointLog(t *testing.T) {
	dir := t.TempDir()
	for id := 1; id <= 3; id++ {
		ts := start(t, newWorld(), files(t, dir))
		c := ts.login()
		c.batches(1, id)
		c.eventually(id, fmt.Sprint("ACK:", id))
		ts.kill()
	}
	path := filepath.Join(dir, "data", checkpointlog.FileName)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	output, err := os.ReadFile(filepath.Join(dir, "out.log"))
	require.NoError(t, err)
	random := seeded(t)
	for range 30 {
		at := random.IntN(len(good))
		bad := slices.Clone(good)
		bad[at] ^= 0x40
		requireRefusedOrRight(t, dir, bad, output, fmt.Sprintf("bit flipped in byte %d", at))
		requireRefusedOrRight(t, dir, good[:at], output, fmt.Sprintf("cut at byte %d", at))
	}
}

func requireRefusedOrRight(t *testing.T, dir string, log, output []byte, what string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data", checkpointlog.FileName), log, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "out.log"), output, 0o600))
	o := options(newWorld(), files(t, dir))
	s, err := New(t.Context(), o)
	if err != nil {
		require.NoError(t, o.Sink.Close())
		require.NoError(t, o.Store.Close())
		return
	}
	defer s.Shutdown(t.Context())
	committed := uint64(0)
	for _, st := range s.Streams() { // none, when the log was cut where it was new: then nothing is answered from
		committed += st.Committed
	}
	left, err := os.ReadFile(filepath.Join(dir, "out.log"))
	require.NoError(t, err)
	require.Equal(t, uint64(strings.Count(string(left), "\n")), committed, what)
}

// slowStore is a store whose checkpoints wait.
type slowStore struct {
	store.Store
	checkpoint *blocked
}

func (s slowStore) Save(ctx context.Context, c *store.Checkpoint) error {
	if len(c.Changes) > 0 { // else it is where the sink stands at the beginning
		if err := s.checkpoint.wait(ctx); err != nil {
			return err
		}
	}
	return s.Store.Save(ctx, c)
}

// A crash before the first checkpoint of all leaves bytes in the output that the next life can explain.
func TestCrashBeforeTheFirstCheckpoint(t *testing.T) {
	dir := t.TempDir()
	output := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "out.log"))
		require.NoError(t, err)
		return string(text)
	}
	for range 2 {
		checkpoint := block()
		ts := start(t, newWorld(), func(o *Options) {
			files(t, dir)(o)
			o.Store = slowStore{o.Store, checkpoint}
		})
		require.Empty(t, output())
		ts.login().batches(1, 3)
		<-checkpoint.entered
		until(t, "all are delivered", func() bool { return output() == "1\n2\n3\n" })
		ts.kill()
		require.Equal(t, "1\n2\n3\n", output(), "the crash leaves them")
	}
	c := start(t, newWorld(), files(t, dir)).login()
	c.batches(1, 3)
	c.eventually(3, "ACK:3")
	require.Equal(t, "1\n2\n3\n", output())
}
