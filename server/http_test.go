package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// ask does one HTTP request.
func (ts *testServer) ask(method, target string) (code int, body string) {
	ts.t.Helper()
	response := httptest.NewRecorder()
	ts.Handler(false).ServeHTTP(response, httptest.NewRequest(method, target, nil))
	return response.Code, response.Body.String()
}

func (ts *testServer) asks(method, target string, code int, body string) {
	ts.t.Helper()
	gotCode, gotBody := ts.ask(method, target)
	require.Equal(ts.t, code, gotCode, "%s: %s", target, gotBody)
	require.Equal(ts.t, body, strings.TrimSpace(gotBody))
}

func TestHealthAndReadiness(t *testing.T) {
	w := newWorld()
	w.write = refuse("poison")
	s, err := New(t.Context(), options(w, nil))
	require.NoError(t, err)
	unserved := &testServer{Server: s, t: t}
	unserved.asks("GET", "/readyz", 503, "connections are not accepted")
	unserved.asks("GET", "/healthz", 200, "ok")
	unserved.kill()

	ts := start(t, w, nil)
	c := ts.login()
	ts.asks("GET", "/readyz", 200, "ok")
	ts.asks("GET", "/healthz", 200, "ok")
	c.expect("__BATCH__:1:poison", "RECEIVED")
	until(t, "the stream is halted", func() bool { return ts.status("a").Halted })
	ts.asks("GET", "/healthz", 503, "a: halted: batch 1, record 0: refused by the sink: the disk is on fire")
	ts.asks("GET", "/readyz", 200, "ok")
	ts.asks("POST", "/streams/nobody/resume", 404, `unknown collector: "nobody"`)
	w.set(func() { w.write = nil })
	ts.asks("POST", "/streams/a/resume", 200, "{}")
	c.eventually(1, "ACK:1")
	ts.asks("GET", "/healthz", 200, "ok")

	w.set(func() { w.save = func(context.Context) error { return errWorld } })
	c.send("__BATCH__:2:2")
	require.ErrorIs(t, <-ts.served, errWorld)
	code, body := ts.ask("GET", "/healthz")
	require.Equal(t, 503, code)
	require.Contains(t, body, "the disk is on fire")
	ts.asks("GET", "/readyz", 503, "connections are not accepted")
}

func TestNotReadyWhileDraining(t *testing.T) {
	w := newWorld()
	write := block()
	w.write = write.write
	ts := start(t, w, nil)
	ts.login().batches(1, 1)
	<-write.entered
	stopped := ts.stopping(context.Background())
	require.ErrorIs(t, <-ts.served, ErrClosed)
	ts.asks("GET", "/readyz", 503, "connections are not accepted")
	ts.asks("GET", "/healthz", 200, "ok")
	write.open()
	require.NoError(t, <-stopped)
}

func TestStreamsAsJSON(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	ts.asks("GET", "/streams", 200, "[]")
	c := ts.login()
	c.batches(1, 2)
	c.eventually(2, "ACK:2")
	c.expect("__BATCH__:5:55", "RECEIVED")
	until(t, "5 is delivered and stored", func() bool { return ts.status("a").Held == 0 })
	_, body := ts.ask("GET", "/streams")
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Len(t, list, 1)
	require.Positive(t, list[0]["lag_seconds"])
	delete(list[0], "lag_seconds")
	require.Equal(t, map[string]any{
		"collector": "a", "connected": true, "epoch": 0.0, "anchored": true, "committed": 2.0, "watermark": 2.0, "received": 5.0,
		"queue": 0.0, "held": 0.0, "held_bytes": 0.0, "missing": []any{[]any{3.0, 4.0}}, "lag_batches": 3.0,
		"nacks": 0.0, "halted": false, "waiting": "collector owes 3 to 4",
	}, list[0])
}

// Each reason why a watermark can wait.
func TestWaiting(t *testing.T) {
	for want, test := range map[string]struct {
		world   func(*world)
		options func(*Options)
		lines   []string
	}{
		"": {lines: []string{"__BATCH__:1:1"}},
		"halted: batch 1, record 0: refused by the sink: the disk is on fire": {
			world: func(w *world) { w.write = refuse("1") }, lines: []string{"__BATCH__:1:1"},
		},
		"sink refuses: batch 1, record 0: refused by the sink: the disk is on fire": {
			world:   func(w *world) { w.write = refuse("1") },
			options: func(o *Options) { o.Backoff = Backoff{time.Hour, time.Hour} },
			lines:   []string{"__BATCH__:1:1"},
		},
		"sink is retrying: transient: no space left": {world: func(w *world) { w.write = never }, lines: []string{"__BATCH__:1:1"}},
		"checkpoint is retrying: store: transient: no space left": {
			world: func(w *world) { w.save = func(context.Context) error { return full } }, lines: []string{"__BATCH__:1:1"},
		},
		"checkpoint is being written": {
			world: func(w *world) { w.save = block().wait }, lines: []string{"__BATCH__:1:1"},
		},
		"the next checkpoint covers it": {
			options: func(o *Options) { o.CheckpointInterval = time.Hour },
			lines:   []string{"__BATCH__:1:1", "__COMMIT__:1", "__BATCH__:2:2"},
		},
		"collector owes 1":      {lines: []string{"__BATCH__:2:1"}},
		"collector owes 1 to 3": {lines: []string{"__BATCH__:4:1"}},
		"in the queue":          {world: func(w *world) { w.write = block().write }, lines: []string{"__BATCH__:1:1"}},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.gaps = true
				if test.world != nil {
					test.world(w)
				}
				ts := startPipe(t, w, test.options)
				c := ts.login()
				for _, line := range test.lines {
					c.send(line)
					c.reply()
					synctest.Wait()
				}
				<-time.After(time.Second)
				require.Equal(t, want, ts.status("a").Waiting)
				require.Equal(t, want != "", ts.status("a").LagSeconds > 0)
			})
		})
	}
}

func TestLostAndForget(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	ts.asks("GET", "/streams/a/lost?below=5", 404, `unknown collector: "a"`)
	ts.asks("POST", "/streams/a/forget?below=5", 404, `unknown collector: "a"`)
	c := ts.login()
	c.expect("__BATCH__:3:3", "RECEIVED")
	for _, bad := range []string{"", "x", "-1", "0", "9223372036854775808", "18446744073709551616", "1.5"} {
		for _, request := range [][2]string{{"GET", "lost"}, {"POST", "forget"}} {
			code, body := ts.ask(request[0], "/streams/a/"+request[1]+"?below="+bad)
			require.Equal(t, 400, code, "below=%s: %s", bad, body)
			require.Contains(t, body, "allowed is")
		}
	}
	code, _ := ts.ask("GET", "/streams/a/forget?below=3")
	require.Equal(t, http.StatusMethodNotAllowed, code)
	ts.asks("GET", "/streams/a/lost?below=3", 200, "[[1,2]]")
	ts.asks("GET", "/streams/a/lost?below=6", 200, "[[1,2],[4,5]]")
	ts.asks("POST", "/streams/a/forget?below=3", 200, "[[1,2]]")
	require.EqualValues(t, 3, w.image("a").Watermark, "it is stored before the answer")
	ts.asks("POST", "/streams/a/forget?below=3", 200, "[]")
	require.Equal(t, 2.0, ts.metric("tidemark_lost_batches_total", `collector="a"`))
	c.expect("__COMMIT__:3", "ACK:3")
	ts.kill()
	c = start(t, w, nil).login()
	c.expect("__BATCH__:3:3", "RECEIVED")
	c.expect("__COMMIT__:3", "ACK:3")
	c.expect("__BATCH__:2:2", "STALE") // given up for good
}

func TestForgetIsNotAnsweredBeforeItIsStored(t *testing.T) {
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	c := ts.login()
	c.expect("__BATCH__:3:3", "RECEIVED")
	until(t, "the pipeline is idle", func() bool { return ts.status("a").Held == 0 })
	save := block()
	w.set(func() { w.save = save.wait })
	ctx, cancel := context.WithCancel(t.Context())
	forgotten := make(chan error, 1)
	go func() {
		_, err := ts.Forget(ctx, "a", 3)
		forgotten <- err
	}()
	<-save.entered
	require.Empty(t, forgotten)
	cancel()
	require.ErrorContains(t, <-forgotten, "not stored yet: context canceled")
	// Whoever asks again gives up nothing more, and waits as well.
	again, cancel := context.WithCancel(t.Context())
	cancel()
	lost, err := ts.Forget(again, "a", 3)
	require.Empty(t, lost)
	require.ErrorContains(t, err, "not stored yet")
	save.open()
	lost, err = ts.Forget(t.Context(), "a", 3)
	require.Empty(t, lost)
	require.NoError(t, err)
	require.EqualValues(t, 3, w.image("a").Watermark)

	// One that waits is told when the server ends.
	w.set(func() { w.save = block().wait })
	go func() {
		_, err := ts.Forget(context.Background(), "a", 9)
		forgotten <- err
	}()
	until(t, "it is given up", func() bool { return ts.status("a").Received == 8 })
	ts.kill()
	require.ErrorIs(t, <-forgotten, ErrClosed)
}

func TestProfilesOnRequestOnly(t *testing.T) {
	ts := start(t, newWorld(), nil)
	for with, want := range map[bool]int{false: 404, true: 200} {
		response := httptest.NewRecorder()
		ts.Handler(with).ServeHTTP(response, httptest.NewRequest("GET", "/debug/pprof/", nil))
		require.Equal(t, want, response.Code)
	}
}

// The page of metrics does not grow with connections, wrong tokens, numbers and unknown commands.
func TestB45MetricsDoNotGrow(t *testing.T) {
	ts := start(t, newWorld(), nil)
	series := func() int {
		n := 0
		for line := range strings.Lines(ts.scrape()) {
			if strings.HasPrefix(line, "tidemark_") {
				require.Len(t, strings.Fields(line), 2)
				n++
			}
		}
		return n
	}
	round := func(i int) {
		c := ts.login()
		c.batches(i, i)
		c.expect(fmt.Sprintf("__NONSENSE_%d__:x", i), "BAD_REQUEST")
		c.expect(fmt.Sprintf("__COMMIT__:%d", i+100_000), "RETRY")
		c.conn.Close()
		c = ts.dial()
		c.expect(fmt.Sprintf("__AUTH__:wrong-%d", i), "AUTH_FAILED")
		c.conn.Close()
	}
	round(1)
	before := series()
	require.Greater(t, before, 20)
	for i := 2; i <= 300; i++ {
		round(i)
	}
	require.Equal(t, before, series())
	require.Equal(t, 300.0, ts.metric("tidemark_replies_total", `code="RECEIVED"`))
	require.Equal(t, 300.0, ts.metric("tidemark_replies_total", `code="AUTH_FAILED"`))
	require.Equal(t, 300.0, ts.metric("tidemark_replies_total", `code="BAD_REQUEST"`))
	require.Equal(t, 300.0, ts.metric("tidemark_stream_received", `collector="a"`))
	require.Equal(t, 1.0, ts.metric("tidemark_streams", ""))
}

// No token, and nothing that may be one, shows up in logs, metrics, errors or files; a bad client's
// log lines are limited, and what it sent is escaped.
func TestB45NoSecretAnywhere(t *testing.T) {
	const secret = "SECRET-X"
	dir := t.TempDir()
	logs := new(logged)
	ts := start(t, newWorld(), func(o *Options) {
		files(t, dir)(o)
		o.Auth, o.Log, o.MaxLineBytes = Tokens(map[string]string{secret: "a"}), logs.logger(), 200
	})
	long := secret + strings.Repeat("x", maxAuthLine)
	for _, line := range []string{
		"__AUTH__:" + secret + "-wrong", "__AUHT__:" + secret, "__AUTH__:" + long, secret, "__" + secret + "__:x",
		"__AUTH__" + secret, "__BATCH__:" + secret + ":" + secret, "__COMMIT__:" + secret,
	} {
		c := ts.dial()
		c.expect(line, "AUTH_FAILED")
		c.conn.Close()
		ts.counters.forgetGrumbling() // the log takes one line of a kind per second
	}
	for range 50 {
		ts.dial().expect("__AUTH__:wrong", "AUTH_FAILED")
	}
	c := ts.loginAs(secret)
	for _, line := range []string{
		"__AUTH__:" + secret, "__AUHT__:" + secret, "__AUTH__:" + long, secret, "__AUTH__" + secret,
		"__BATCH__:" + secret + ":" + secret, "__COMMIT__:" + secret, "__COMMIT__:1:" + secret,
		"\x1b[2J:" + secret, "__\x1b[2J__:" + secret,
	} {
		c.send(line)
		require.NotContains(t, c.reply(), secret)
		ts.counters.forgetGrumbling()
	}
	c.batches(1, 1)
	c.eventually(1, "ACK:1")
	page := ts.scrape()
	_, streams := ts.ask("GET", "/streams")
	ts.kill()
	require.NotContains(t, logs.String(), secret)
	require.NotContains(t, logs.String(), "\x1b")
	require.NotContains(t, page+streams, secret)
	require.Contains(t, logs.String(), "authentication failed")
	require.LessOrEqual(t, strings.Count(logs.String(), "authentication failed"), 10)
	found := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		require.NotContains(t, string(text), secret, path)
		found++
		return err
	}))
	require.Greater(t, found, 1)
}

func (c *counters) forgetGrumbling() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.grumbling)
}

func TestOptionsThatCannotWork(t *testing.T) {
	w := newWorld()
	for name, change := range map[string]func(*Options){
		"Sink is nil":                       func(o *Options) { o.Sink = nil },
		"Store is nil":                      func(o *Options) { o.Store = nil },
		"Auth is nil":                       func(o *Options) { o.Auth = nil },
		`First["a"] is 0`:                   func(o *Options) { o.First = map[string]uint64{"a": 0} },
		`First["a"] is 9223372036854775808`: func(o *Options) { o.First = map[string]uint64{"a": 1 << 63} },
		"Backoff is":                        func(o *Options) { o.Backoff = Backoff{time.Second, time.Millisecond} },
		"history is 1":                      limits(func(l *statemachine.Limits) { l.History = 1 }),
		"queue capacity is 0":               limits(func(l *statemachine.Limits) { l.QueueCapacity = 0 }),
		"Backoff is -1ns to 1s":             func(o *Options) { o.Backoff = Backoff{-1, time.Second} },
		"TotalBytes is -1, allowed is 0":    func(o *Options) { o.TotalBytes = -1 },
		"MaxLineBytes is -1":                func(o *Options) { o.MaxLineBytes = -1 },
		"MaxConnections is -1":              func(o *Options) { o.MaxConnections = -1 },
		"ReceivedWait is -1":                func(o *Options) { o.ReceivedWait = -1 },
		"RetryAfter is -1":                  func(o *Options) { o.RetryAfter = -1 },
		"AuthTimeout is -1":                 func(o *Options) { o.AuthTimeout = -1 },
		"SeatWait is -1":                    func(o *Options) { o.SeatWait = -1 },
		"IdleTimeout is -1":                 func(o *Options) { o.IdleTimeout = -1 },
		"WriteTimeout is -1":                func(o *Options) { o.WriteTimeout = -1 },
		"CheckpointInterval is -1":          func(o *Options) { o.CheckpointInterval = -1 },
	} {
		_, err := New(t.Context(), options(w, change))
		require.ErrorContains(t, err, name)
	}
}
