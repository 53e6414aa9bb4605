package config_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/config"
)

func parse(t *testing.T, args ...string) (*config.Server, error) {
	t.Helper()
	return config.ParseServer(args, io.Discard, "test")
}

func writeFile(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "tidemark.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDefaults(t *testing.T) {
	got, err := parse(t)
	require.NoError(t, err)
	require.Equal(t, &config.Server{
		Listen: "127.0.0.1:9470", HTTP: "127.0.0.1:9471", DataDir: "./tidemark-data",
		Sink:        config.Sink{Kind: config.SinkFile, Path: "./tidemark-out.log", Framing: config.FramingLF},
		AuthTimeout: 5 * time.Second, IdleTimeout: time.Minute, WriteTimeout: 10 * time.Second,
		MaxConnections: 10000, MaxLineBytes: 4 << 20, PacketMode: config.PacketModeRaw,
		Numbering: config.NumberingDense, Received: config.ReceivedQueued, ReceivedWait: 10 * time.Second,
		QueueCapacity: 1024, QueueBytes: 64 << 20, TotalBytes: 512 << 20, BackpressureRatio: 0.9,
		RetryAfter: 500 * time.Millisecond, History: 4096, Ahead: 4096, Snapshot: config.SnapshotLight,
		BindRetries: 3, BindInterval: time.Second, ShutdownTimeout: 10 * time.Second,
	}, got)
}

func TestFlags(t *testing.T) {
	got, err := parse(t, "--listen", "[::1]:0", "--sink=stdout:", "--queue-bytes=1KiB", "--total-bytes", "2048", "--max-line-bytes=2KiB", "--recover", "--pprof",
		"--token", "edge-1=a,b=c;d", "--token", "edge-1=second", "--token=edge.2=x", "--first", "edge-1=9223372036854775807",
		"--first=edge.2=500", "--bind-retries=-1", "--backpressure-ratio=1", "--packet-mode=PACKET", "--secret-key-file=key")
	require.NoError(t, err)
	require.Equal(t, []config.Token{{"edge-1", "a,b=c;d"}, {"edge-1", "second"}, {"edge.2", "x"}}, got.Token)
	require.Equal(t, []config.First{{"edge-1", 9223372036854775807}, {"edge.2", 500}}, got.First)
	require.Equal(t, config.Sink{Kind: config.SinkStdout}, got.Sink)
	require.Equal(t, config.Size(1024), got.QueueBytes)
	require.Equal(t, config.Size(2048), got.TotalBytes)
	require.True(t, got.Recover)
	require.True(t, got.Pprof)
	require.Equal(t, -1, got.BindRetries)
	require.Equal(t, "[::1]:0", got.Listen)
}

// A flag wins over the environment, that over the file, that over the default.
func TestPrecedence(t *testing.T) {
	file := writeFile(t, "queue-capacity: 1\nhistory: 5001\nahead: 4999\nrecover: true\nbackpressure-ratio: 0.5\nqueue-bytes: 2MiB\n"+
		"token:\n  - a=1\n  - b=2\n")
	t.Setenv("TIDEMARK_CONFIG", file)
	t.Setenv("TIDEMARK_QUEUE_CAPACITY", "2")
	t.Setenv("TIDEMARK_HISTORY", "5002")
	t.Setenv("TIDEMARK_RECOVER", "false")
	got, err := parse(t, "--queue-capacity=3")
	require.NoError(t, err)
	require.Equal(t, 3, got.QueueCapacity)
	require.Equal(t, 5002, got.History)
	require.Equal(t, 4999, got.Ahead)
	require.False(t, got.Recover)
	require.Equal(t, 0.5, got.BackpressureRatio)
	require.Equal(t, config.Size(2<<20), got.QueueBytes)
	require.Equal(t, []config.Token{{"a", "1"}, {"b", "2"}}, got.Token)
	require.Equal(t, 4096, must(t)(parse(t, "--config", writeFile(t, ""))).Ahead, "an empty file is one without options")

	t.Setenv("TIDEMARK_TOKEN", "c=3\nd=4\n")
	require.Equal(t, []config.Token{{"c", "3"}, {"d", "4"}}, must(t)(parse(t)).Token)
	require.Equal(t, []config.Token{{"e", "5"}}, must(t)(parse(t, "--token=e=5")).Token)
}

func must(t *testing.T) func(*config.Server, error) *config.Server {
	return func(s *config.Server, err error) *config.Server {
		t.Helper()
		require.NoError(t, err)
		return s
	}
}

// Every wrong value is refused with the option, the value and what is allowed.
func TestUsageErrors(t *testing.T) {
	long := strings.Repeat("n", 65)
	for _, c := range []struct{ args, want string }{
		{"--listen=9470", `--listen "9470": must be HOST:PORT, with a port from 0 to 65535`},
		{"--listen=:65536", `--listen ":65536": must be HOST:PORT, with a port from 0 to 65535`},
		{"--http=", `--http: must be HOST:PORT, with a port from 0 to 65535`},
		{"--data-dir=", `--data-dir: must be a path`},
		{"--sink=file:", `--sink "file:": must be file:PATH, file:PATH?framing=lf, file:PATH?framing=length or stdout:`},
		{"--sink=file:x?framing=crlf", `--sink "file:x?framing=crlf": must be file:PATH, file:PATH?framing=lf, file:PATH?framing=length or stdout:`},
		{"--sink=file:x?y", `--sink "file:x?y": must be file:PATH, file:PATH?framing=lf, file:PATH?framing=length or stdout:`},
		{"--sink=stdout:x", `--sink "stdout:x": must be file:PATH, file:PATH?framing=lf, file:PATH?framing=length or stdout:`},
		{"--sink=stdout", `--sink "stdout": must be file:PATH, file:PATH?framing=lf, file:PATH?framing=length or stdout:`},
		{"--sink=udp:x", `--sink "udp:x": must be file:PATH, file:PATH?framing=lf, file:PATH?framing=length or stdout:`},
		{"--queue-capacity=0", `--queue-capacity "0": must be an integer from 1 to 1048576`},
		{"--queue-capacity=many", `--queue-capacity "many": must be an integer from 1 to 1048576`},
		{"--queue-capacity=1048577", `--queue-capacity "1048577": must be an integer from 1 to 1048576`},
		{"--queue-bytes=1023B", `--queue-bytes "1023B": must be a size from 1KiB to 1TiB`},
		{"--queue-bytes=1MB", `--queue-bytes "1MB": must be a size from 1KiB to 1TiB`},
		{"--queue-bytes=-1MiB", `--queue-bytes "-1MiB": must be a size from 1KiB to 1TiB`},
		{"--queue-bytes=9999999TiB", `--queue-bytes "9999999TiB": must be a size from 1KiB to 1TiB`},
		{"--queue-bytes=", `--queue-bytes: must be a size from 1KiB to 1TiB`},
		{"--retry-after=0s", `--retry-after "0s": must be a duration from 1ms to 1h`},
		{"--retry-after=5", `--retry-after "5": must be a duration from 1ms to 1h`},
		{"--backpressure-ratio=0", `--backpressure-ratio "0": must be a number above 0, at most 1`},
		{"--backpressure-ratio=NaN", `--backpressure-ratio "NaN": must be a number above 0, at most 1`},
		{"--backpressure-ratio=90%", `--backpressure-ratio "90%": must be a number above 0, at most 1`},
		{"--numbering=gaps", `--numbering "gaps": must be dense or sparse`},
		{"--packet-mode=raw", `--packet-mode "raw": must be RAW or PACKET`},
		{"--history=10", `--history "10": must be at least --ahead, which is 4096`},
		{"--total-bytes=1MiB", `--queue-bytes "64MiB": must be at most --total-bytes, which is 1MiB`},
		{"--total-bytes=64MiB --max-line-bytes=58MiB", `--max-line-bytes "58MiB": must be at most --total-bytes times --backpressure-ratio, which is 60397977B`},
		{"--total-bytes=64MiB --max-line-bytes=64MiB", `--max-line-bytes "64MiB": must be at most --total-bytes times --backpressure-ratio, which is 60397977B`},
		{"--received=durable --received-wait=60s", `--received-wait "1m0s": must be below --idle-timeout, which is 1m0s, with --received durable`},
		{"--received=durable --checkpoint-interval=10s", `--checkpoint-interval "10s": must be below --received-wait, which is 10s, with --received durable`},
		{"--shutdown-timeout=0s", `--shutdown-timeout "0s": must be a duration from 1ms to 1h`},
		{"--bind-retries -2", `--bind-retries "-2": must be an integer from -1 to 1000000`},
		{"--queue-bytes -1MiB", `--queue-bytes "-1MiB": must be a size from 1KiB to 1TiB`},
		{"--queue-capacity --history=5000", `--queue-capacity: needs a value: an integer from 1 to 1048576`},
		{"--token=a=b --token-file=f", `--token-file "f": must be left out when there is --token`},
		{"--secret-key-file=f", `--secret-key-file "f": must be left out without --packet-mode PACKET`},
		{"--first=a", `--first "a": must be NAME=N, with a collector's name and a number from 1 to 9223372036854775807, each name once`},
		{"--first=a=0", `--first "a=0": must be NAME=N, with a collector's name and a number from 1 to 9223372036854775807, each name once`},
		{"--first=a=9223372036854775808", `--first "a=9223372036854775808": must be NAME=N, with a collector's name and a number from 1 to 9223372036854775807, each name once`},
		{"--first=a=1 --first=a=2", `--first "[a=1 a=2]": must be NAME=N, with a collector's name and a number from 1 to 9223372036854775807, each name once`},
		{"--first=" + long + "=1", `--first "` + long + `=1": must be NAME=N, with a collector's name and a number from 1 to 9223372036854775807, each name once`},
		{"--first=..=1", `--first "..=1": must be NAME=N, with a collector's name and a number from 1 to 9223372036854775807, each name once`},
		{"--queue-capacity", `--queue-capacity: needs a value: an integer from 1 to 1048576`},
		{"--token", `--token: needs a value: NAME=TOKEN, with a collector's name and a token that is not empty, holds no LF and ends in no CR, each token once`},
		{"--pprof=2", `--pprof "2": must be true or false`},
		{"--quue-capacity=1", `unknown flag --quue-capacity, did you mean "--queue-capacity"?`},
		{"stray", `unexpected argument stray`},
	} {
		_, err := parse(t, strings.Fields(c.args)...)
		var usage *config.UsageError
		require.ErrorAs(t, err, &usage, "%s", c.args)
		require.EqualError(t, err, c.want)
	}
}

// The longest token fits into the line that shows it; one byte more does not, wherever it comes from.
func TestTokenLength(t *testing.T) {
	longest := strings.Repeat("x", 4096-len("__AUTH__:"))
	_, err := parse(t, "--token=a="+longest)
	require.NoError(t, err)
	_, err = parse(t, "--token=b=y", "--token=a="+longest+"x")
	require.EqualError(t, err, "--token: must be at most 4087 bytes long")
	_, err = config.ReadTokens(writeFile(t, "b=y\na="+longest+"\n"))
	require.NoError(t, err)
	path := writeFile(t, "b=y\na="+longest+"x\n")
	_, err = config.ReadTokens(path)
	require.EqualError(t, err, `--token-file "`+path+`": line 2: the token must be at most 4087 bytes long`)
	path = writeFile(t, longest+"x\n")
	_, err = config.ReadToken(path)
	require.EqualError(t, err, `--token-file "`+path+`": the token must be at most 4087 bytes long`)
	_, err = config.ReadToken(writeFile(t, longest+"\n"))
	require.NoError(t, err)
}

// What one option demands of another counts only where it matters.
func TestTogether(t *testing.T) {
	for _, args := range []string{
		"--received-wait=2m --checkpoint-interval=3m", // replies are not held back
		"--received=durable --received-wait=59s --checkpoint-interval=58s",
		"--total-bytes=64MiB --max-line-bytes=57MiB",
		"--total-bytes=64MiB --max-line-bytes=64MiB --backpressure-ratio=1",
		"--shutdown-timeout=1ms",
	} {
		_, err := parse(t, strings.Fields(args)...)
		require.NoError(t, err, args)
	}
}

// A negative number is a value also without "=".
func TestNegativeValue(t *testing.T) {
	for _, args := range []string{"--bind-retries -1", "--bind-retries=-1", "--bind-retries -1 --recover"} {
		require.Equal(t, -1, must(t)(parse(t, strings.Fields(args)...)).BindRetries, args)
	}
}

// A token is never shown, however wrong it is.
func TestTokensAreHidden(t *testing.T) {
	for _, args := range [][]string{{"--token=SECRET"}, {"--token=a b=SECRET"}, {"--token=a="}, {"--token=a=SECRET\r"},
		{"--token=a=SECRET", "--token=b=SECRET"}, {"--token=a=SECRET\nSECRET"}} {
		_, err := parse(t, args...)
		require.ErrorContains(t, err, "--token: must be NAME=TOKEN")
		require.NotContains(t, err.Error(), "SECRET")
	}
	token := config.Token{Collector: "a", Secret: "SECRET"}
	require.Equal(t, "a=...", token.String())
	require.Equal(t, "a=...", token.GoString())
}

func TestFileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"lisen: x\n":                  `unknown key "lisen": must be the name of an option, such as queue-capacity`,
		"config: other.yaml\n":        `unknown key "config": must be the name of an option, such as queue-capacity`,
		"version: true\n":             `unknown key "version": must be the name of an option, such as queue-capacity`,
		"help: true\n":                `unknown key "help": must be the name of an option, such as queue-capacity`,
		"history:\n":                  `key "history": must be an integer from 1 to 1048576`,
		"history: {a: 1}\n":           `key "history": must be an integer from 1 to 1048576`,
		"token: []\n":                 `key "token": must be NAME=TOKEN, with`,
		"- listen\n":                  `is no YAML mapping of options: `,
		"listen: 'x\n":                `is no YAML mapping of options: `,
		"history: 9000\nhistory: 1\n": `is no YAML mapping of options: `,
	} {
		path := writeFile(t, text)
		_, err := parse(t, "--config="+path)
		require.ErrorContains(t, err, `--config "`+path+`": `+want)
	}
	_, err := parse(t, "--config="+writeFile(t, "history: none\n"))
	require.EqualError(t, err, `--history "none": must be an integer from 1 to 1048576`)
	_, err = parse(t, "--config="+filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "cannot be read: ")
}

func TestEnvironmentErrors(t *testing.T) {
	t.Setenv("TIDEMARK_HISTORY", "none")
	_, err := parse(t)
	require.EqualError(t, err, `--history "none": must be an integer from 1 to 1048576`)
	_, err = parse(t, "--history=5000") // the flag wins, wrong or not
	require.NoError(t, err)
}

func TestHelpAndVersion(t *testing.T) {
	var out bytes.Buffer
	_, err := config.ParseServer([]string{"--help"}, &out, "v1.2.3")
	require.ErrorIs(t, err, config.ErrPrinted)
	require.Contains(t, out.String(), "--queue-capacity=N")
	require.Contains(t, out.String(), "$TIDEMARK_QUEUE_CAPACITY")
	out.Reset()
	_, err = config.ParseServer([]string{"--version", "--history=1"}, &out, "v1.2.3")
	require.ErrorIs(t, err, config.ErrPrinted)
	require.Equal(t, "v1.2.3\n", out.String())
}

func TestSend(t *testing.T) {
	parse := func(args ...string) (config.Send, error) {
		var grammar struct {
			Send config.Send `cmd:""`
		}
		_, err := config.Parse(&grammar, append([]string{"send"}, args...), io.Discard, kong.Name("tidemark"))
		return grammar.Send, err
	}
	base := []string{"--to=h:1", "--collector=edge-7"}
	got, err := parse(append(base, "a", "-")...)
	require.NoError(t, err)
	require.Equal(t, config.Send{To: "h:1", Collector: "edge-7", Dialect: 2, Batch: 100, Window: 512, RetryMin: 100 * time.Millisecond,
		RetryMax: 5 * time.Second, Files: []string{"a", "-"}}, got)

	for args, want := range map[string]string{
		"--window=4097 a":            `--window "4097": must be an integer from 1 to 4096`,
		"--dialect=3 a":              `--dialect "3": must be an integer from 1 to 2`,
		"--retry-max=50ms a":         `--retry-max "50ms": must be at least --retry-min, which is 100ms`,
		"--token=x --token-file=f a": `--token-file "f": must be left out when there is --token`,
	} {
		_, err := parse(append(base, strings.Fields(args)...)...)
		require.EqualError(t, err, want)
	}
	_, err = parse(append(base, "--token=a\r", "x")...)
	require.EqualError(t, err, "--token: must be without an LF, and not end in CR")
	_, err = parse(append(base, "--token="+strings.Repeat("x", 4088), "x")...)
	require.EqualError(t, err, "--token: must be at most 4087 bytes long")
	_, err = parse("--to=h:1", "--collector=a b", "x")
	require.EqualError(t, err, `--collector "a b": must be 1 to 64 letters, digits, dots, underscores and hyphens`)
	_, err = parse("x")
	require.EqualError(t, err, `--to: must be HOST:PORT, with a port from 0 to 65535`)
	_, err = parse(base...)
	require.ErrorContains(t, err, `expected "<FILE> ..."`)
}

func TestBrokenGrammar(t *testing.T) {
	require.PanicsWithValue(t, "config: the grammar is broken: expected a pointer to a struct but got int", func() {
		_, _ = config.Parse(1, nil, io.Discard)
	})
}
