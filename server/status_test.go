package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

// What people are told, and what they may do.

// A page of another site that an operator's browser shows changes nothing here.
func TestOtherSitesChangeNothing(t *testing.T) {
	w := newWorld()
	w.gaps = true
	w.write = refuse("poison")
	ts := start(t, w, nil)
	c := ts.login()
	c.expect("__BATCH__:1:poison", "RECEIVED")
	c.expect("__BATCH__:3:3", "RECEIVED")
	until(t, "the stream is halted", func() bool { return ts.status("a").Halted })
	before := ts.status("a")
	post := func(target string, header http.Header) int {
		request := httptest.NewRequest("POST", target, nil) // to example.com
		request.Header = header
		response := httptest.NewRecorder()
		ts.Handler(false).ServeHTTP(response, request)
		return response.Code
	}
	for _, target := range []string{"/streams/a/forget?below=3", "/streams/a/resume"} {
		for _, header := range []http.Header{
			{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://elsewhere.example"}},
			{"Sec-Fetch-Site": {"same-site"}, "Origin": {"https://sub.example.com"}},
			{"Origin": {"https://elsewhere.example"}}, // an older browser
			{"Origin": {"null"}},
		} {
			require.Equal(t, http.StatusForbidden, post(target, header), "%s %v", target, header)
		}
	}
	after := ts.status("a")
	after.LagSeconds = before.LagSeconds
	require.Equal(t, before, after)
	require.Zero(t, ts.metric("tidemark_lost_batches_total", ""))
	require.Equal(t, http.StatusOK, post("/streams/a/resume", http.Header{"Origin": {"http://example.com"}}), "a page of our own")
}

// While the sink takes nothing, every stream that waits for it says so, whichever is tried; when it
// takes again, none does.
func TestOutageIsSeenOnEveryStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.write = never
		ts := startPipe(t, w, func(o *Options) { o.Backoff = Backoff{time.Second, time.Second} })
		a, b := ts.login(), ts.loginAs("tok-B")
		a.batches(1, 3)
		b.batches(1, 3)
		<-time.After(10 * time.Second)
		for _, st := range ts.Streams() {
			require.Equal(t, "sink is retrying: "+passing.Error(), st.Waiting, st.Collector)
		}
		w.set(func() { w.write = nil })
		<-time.After(10 * time.Second)
		for _, st := range ts.Streams() {
			require.Empty(t, st.Waiting, st.Collector)
		}
		w.set(func() { w.write = block().write }) // slow, and not out
		a.batches(4, 5)
		b.batches(4, 5)
		<-time.After(10 * time.Second)
		for _, st := range ts.Streams() {
			require.Equal(t, "in the queue", st.Waiting, st.Collector)
		}
	})
}

// A sink that refuses the first it is given after an outage has ended the outage.
func TestRefusalEndsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.write = never
		ts := startPipe(t, w, func(o *Options) {
			limits(func(l *statemachine.Limits) { l.MaxNacks = 100 })(o)
			o.Backoff = Backoff{time.Second, time.Hour}
		})
		c := ts.login()
		c.batches(1, 3)
		<-time.After(time.Minute)
		w.set(func() { w.write = refuse("1") })
		<-time.After(time.Minute)
		require.Equal(t, "sink refuses: batch 1, record 0: refused by the sink: the disk is on fire", ts.status("a").Waiting)
	})
}

// After a restart the lag counts from then on, though nothing happens.
func TestLagAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gaps = true
		ts := startPipe(t, w, nil)
		c, b := ts.login(), ts.loginAs("tok-B")
		c.batches(1, 3)
		c.expect("__BATCH__:9:9", "RECEIVED")
		b.batches(1, 1)
		<-time.After(time.Minute)
		require.Equal(t, 60.0, ts.status("a").LagSeconds)
		ts.kill()
		<-time.After(time.Hour)
		ts = startPipe(t, w, nil)
		require.Zero(t, ts.status("a").LagSeconds)
		<-time.After(10 * time.Second)
		require.Equal(t, 10.0, ts.status("a").LagSeconds)
		require.Equal(t, "collector owes 4 to 8", ts.status("a").Waiting)
		require.Zero(t, ts.status("b").LagSeconds)
	})
}

// atLeastOnce is a sink that can't undo.
type atLeastOnce struct{ worldSink }

func (atLeastOnce) Traits() sink.Traits { return sink.Traits{} }

func TestAtLeastOnceIsWarnedOf(t *testing.T) {
	for want, s := range map[int]func(*world) sink.Sink{
		0: func(w *world) sink.Sink { return worldSink{w} },
		1: func(w *world) sink.Sink { return atLeastOnce{worldSink{w}} },
	} {
		w, logs := newWorld(), new(logged)
		ts := start(t, w, func(o *Options) { o.Sink, o.Log = s(w), logs.logger() })
		require.Equal(t, want, strings.Count(logs.String(), "level=WARN"), logs.String())
		require.Equal(t, want, strings.Count(logs.String(), "at least once"), logs.String())
		require.NoError(t, ts.Shutdown(context.Background()))
	}
}
