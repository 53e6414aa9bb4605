package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

func TestTransientFailureNeverHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.write = never
		ts := startPipe(t, w, func(o *Options) {
			o.Backoff, o.IdleTimeout = Backoff{100 * time.Millisecond, 5 * time.Second}, 48*time.Hour
		})
		c := ts.login()
		c.batches(1, 3)
		<-time.After(24 * time.Hour)
		st := ts.status("a")
		require.False(t, st.Halted)
		require.Zero(t, st.Nacks)
		require.Equal(t, "sink is retrying: transient: no space left", st.Waiting)
		require.InDelta(t, 24*3600, st.LagSeconds, 1)
		require.InDelta(t, 24*3600/5, w.called().write, 10, "one try every 5s")
		require.LessOrEqual(t, w.called().save, 3, "the image did not change meanwhile")
		w.set(func() { w.write = nil })
		<-time.After(5 * time.Second)
		c.expect("__COMMIT__:3", "ACK:3")
		require.Zero(t, ts.status("a").LagSeconds)
		require.Equal(t, records("a", 1, 3), w.durable())
	})
}

func TestPartialTake(t *testing.T) {
	w := newWorld()
	first := block()
	w.write = func(ctx context.Context, d sink.Delivery) (int, error) {
		if err := first.wait(ctx); err != nil {
			return 0, err
		}
		if n := len(d.Batches); n > 1 { // one at a time, of many
			return 1, passing
		}
		return 1, nil
	}
	c := start(t, w, nil).login()
	c.batches(1, 50)
	first.open()
	c.eventually(50, "ACK:50")
	require.Equal(t, records("a", 1, 50), w.durable())
}

func TestRefusedHaltsAfterMaxNacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nacks = 7
		w := newWorld()
		w.write = refuse("poison")
		logs := new(logged)
		ts := startPipe(t, w, func(o *Options) {
			limits(func(l *statemachine.Limits) { l.MaxNacks = nacks })(o)
			o.Backoff, o.Log, o.IdleTimeout = Backoff{time.Second, time.Minute}, logs.logger(), 24*time.Hour
		})
		c := ts.login()
		c.expect("__BATCH__:1:poison", "RECEIVED")
		<-time.After(10 * time.Second)
		require.False(t, ts.status("a").Halted)
		require.Equal(t, 4, ts.status("a").Nacks, "at 0s, 1s, 3s and 7s")
		require.Contains(t, ts.status("a").Waiting, "sink refuses: batch 1, record 0")
		<-time.After(time.Hour)
		require.True(t, ts.status("a").Halted)
		require.Equal(t, nacks, w.called().write)
		require.EqualValues(t, nacks, ts.metric("tidemark_sink_failures_total", `kind="refused"`))
		require.Contains(t, logs.String(), "tidemark resume a")
		require.NoError(t, ts.Resume("a"))
		<-time.After(time.Hour)
		require.Equal(t, 2*nacks, w.called().write, "as many again, and then halted again")
		require.NoError(t, ts.Resume("a"))
		w.set(func() { w.write = nil })
		<-time.After(time.Minute)
		c.expect("__COMMIT__:1", "ACK:1")
		require.NoError(t, ts.Resume("a"), "no error when it is not halted")
		require.ErrorIs(t, ts.Resume("nobody"), ErrUnknownCollector)
	})
}

func TestCheckpointInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var at []time.Time
		w.commit = func(context.Context) error { at = append(at, time.Now()); return nil }
		ts := startPipe(t, w, func(o *Options) { o.CheckpointInterval = 10 * time.Second })
		c := ts.login()
		for id := 1; id <= 100; id++ {
			c.batches(id, id)
			<-time.After(time.Second)
		}
		<-time.After(10 * time.Second)
		c.expect("__COMMIT__:100", "ACK:100")
		require.Len(t, at, 11)
		for i := range at[1:] {
			require.GreaterOrEqual(t, at[i+1].Sub(at[i]), 10*time.Second)
		}
	})
}

// One checkpoint at a time, each with all that came while the last one was written.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.save = func(context.Context) error { <-time.After(time.Second); return nil }
		ts := startPipe(t, w, nil)
		a, b := ts.login(), ts.loginAs("tok-B")
		for id := 1; id <= 100; id++ {
			a.batches(id, id)
			b.batches(id, id)
			<-time.After(100 * time.Millisecond)
		}
		<-time.After(2 * time.Second)
		a.expect("__COMMIT__:100", "ACK:100")
		b.expect("__COMMIT__:100", "ACK:100")
		require.LessOrEqual(t, w.called().save, 12)
		require.EqualValues(t, w.called().save, ts.metric("tidemark_checkpoint_seconds_count", ""))
	})
}

// The last acknowledgement comes without anything else happening, wherever the last batch falls.
func TestLastAckComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		random := seeded(t)
		w.write = func(_ context.Context, d sink.Delivery) (int, error) {
			<-time.After(time.Duration(random.IntN(3)) * time.Millisecond)
			return len(d.Batches), nil
		}
		w.commit = func(context.Context) error {
			<-time.After(time.Duration(random.IntN(3)) * time.Millisecond)
			return nil
		}
		w.save = func(context.Context) error {
			<-time.After(time.Duration(random.IntN(3)) * time.Millisecond)
			return nil
		}
		ts := startPipe(t, w, nil)
		c := ts.login()
		for id := 1; id <= 500; id++ {
			c.batches(id, id)
			if random.IntN(3) == 0 {
				<-time.After(time.Duration(random.IntN(8)) * time.Millisecond)
			}
			if random.IntN(20) == 0 {
				<-time.After(time.Second)
				c.expect(fmt.Sprintf("__COMMIT__:%d", id), fmt.Sprintf("ACK:%d", id))
				ts.released()
			}
		}
	})
}

// A stream of gaps that are filled in any order: everything comes through, once, and the last
// acknowledgement too. Duplicates and reconnects in between.
func TestAnyOrder(t *testing.T) {
	const n = 400
	random := seeded(t)
	w := newWorld()
	w.gaps = true
	ts := start(t, w, nil)
	c := ts.login()
	order := random.Perm(n)
	for _, i := range order {
		for range 1 + random.IntN(2) {
			c.expect(fmt.Sprintf("__BATCH__:%d:%d", i+1, i+1), "RECEIVED")
		}
		if random.IntN(40) == 0 {
			c.conn.Close()
			c = ts.login()
		}
	}
	until(t, "all is committed", func() bool { return ts.status("a").Committed == n })
	require.ElementsMatch(t, records("a", 1, n), w.durable())
	ts.released()
	require.Empty(t, ts.status("a").Missing)
}

// Anchors of a stream are stored one after the other: an old image never lands on a newer one.
func TestAnchorsDoNotOvertake(t *testing.T) {
	w := newWorld()
	anchor := block()
	w.anchor = anchor.wait
	ts := start(t, w, nil)
	c := ts.login()
	c.send("__BATCH__:1:1")
	<-anchor.entered
	const operators = 8
	asking, forgotten := make(chan struct{}), make(chan error)
	for range operators {
		go func() {
			asking <- struct{}{}
			_, err := ts.Forget(context.Background(), "a", 1)
			forgotten <- err
		}()
	}
	for range operators {
		<-asking
	}
	anchor.open()
	require.Equal(t, "RECEIVED", c.reply())
	for range operators {
		require.NoError(t, <-forgotten)
	}
	require.Equal(t, 1, w.called().anchor)
	c.eventually(1, "ACK:1")
	require.EqualValues(t, 1, w.image("a").Watermark)
}

// misbehave makes sink and store fail at random, in each way that a stream survives.
func (w *world) misbehave(random *rand.Rand) {
	w.write = func(_ context.Context, d sink.Delivery) (int, error) {
		n := random.IntN(len(d.Batches) + 1)
		switch random.IntN(5) {
		case 0:
			return min(n, len(d.Batches)-1), passing
		case 1:
			return 0, &sink.Refused{Batch: d.Batches[0].ID, Err: errWorld}
		}
		return len(d.Batches), nil
	}
	w.commit = func(context.Context) error {
		if random.IntN(5) == 0 {
			return passing
		}
		return nil
	}
	w.save = func(context.Context) error {
		if random.IntN(5) == 0 {
			return full
		}
		return nil
	}
}

// Everything at once, for the race detector: batches, commits, status, metrics, resume, forget, and
// a sink that fails in each way, until the server stops.
func TestEverythingAtOnce(t *testing.T) {
	random := seeded(t)
	w := newWorld()
	w.gaps = true
	w.misbehave(random)
	ts := start(t, w, func(o *Options) {
		o.Backoff, o.Durable, o.ReceivedWait = Backoff{time.Microsecond, time.Millisecond}, true, 2*time.Millisecond
	})
	stop := make(chan struct{})
	var beside sync.WaitGroup
	for _, do := range []func(){
		func() { ts.Streams() },
		func() { ts.scrape() },
		func() { ts.Resume("a"); ts.Resume("b") },
		func() { ts.Lost("a", 10) },
	} {
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					do()
				}
			}
		})
	}
	var agents sync.WaitGroup
	for _, token := range []string{"tok-A", "tok-B"} {
		c := ts.loginAs(token)
		agents.Go(func() {
			for id := 1; id <= 60; id++ {
				for reply := ""; reply != "RECEIVED\n"; {
					fmt.Fprintf(c.conn, "__BATCH__:%d:%d\n__COMMIT__:%d\n", id, id, id)
					var err error
					if reply, err = c.in.ReadString('\n'); err != nil {
						t.Error(err)
						return
					}
					c.in.ReadString('\n')
				}
			}
		})
	}
	agents.Wait()
	require.Len(t, w.durable(), 120)
	_, err := ts.Forget(t.Context(), "a", 70)
	require.NoError(t, err)
	close(stop)
	beside.Wait()
	require.NoError(t, ts.Shutdown(context.Background()))
	ts.released()
	require.EqualValues(t, 69, w.image("a").Watermark)
}

// Whoever finds a stream marked can rely on its being on the list: the barrier takes the images of
// the list, and a stream whose rows are sealed without its image would be delivered twice after a
// crash.
func TestMarkedIsListed(t *testing.T) {
	for range 20_000 {
		p := &pipeline{wake: make(chan struct{}, 1)}
		st := new(stream)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				p.touched(st)
				if waiting, dirty := p.listed(); waiting != 1 || dirty != 1 {
					t.Errorf("marked and not listed: %d, %d", waiting, dirty)
				}
			})
		}
		both.Wait()
	}
}

// What the collector sends meanwhile does not shorten the wait after a refusal; only an operator does.
func TestBackoffHoldsWhileTheCollectorSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.write = refuse("poison")
		ts := startPipe(t, w, func(o *Options) {
			limits(func(l *statemachine.Limits) { l.MaxNacks = 2 })(o)
			o.Backoff = Backoff{10 * time.Second, 10 * time.Second}
		})
		c := ts.login()
		c.expect("__BATCH__:1:poison", "RECEIVED")
		for id := 2; id <= 91; id++ {
			<-time.After(100 * time.Millisecond)
			c.batches(id, id)
			synctest.Wait()
			require.Equal(t, 1, w.called().write)
		}
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, 2, w.called().write, "after 10s")
		require.True(t, ts.status("a").Halted)
		w.set(func() { w.write = nil })
		require.NoError(t, ts.Resume("a"))
		synctest.Wait()
		require.Equal(t, 3, w.called().write, "at once")
		c.expect("__COMMIT__:91", "ACK:91")
	})
}

// A sink that does not keep its contract ends the server, which says so and acknowledges nothing.
func TestSinkThatBreaksItsContract(t *testing.T) {
	for name, write := range map[string]func(context.Context, sink.Delivery) (int, error){
		"took 0 of 1 batches with error <nil>":     func(context.Context, sink.Delivery) (int, error) { return 0, nil },
		"took 2 of 1 batches with error <nil>":     func(context.Context, sink.Delivery) (int, error) { return 2, nil },
		"took -1 of 1 batches":                     func(context.Context, sink.Delivery) (int, error) { return -1, passing },
		"took 1 of 1 batches with error transient": func(context.Context, sink.Delivery) (int, error) { return 1, passing },
		"took 1 of 1 batches with error batch 1": func(context.Context, sink.Delivery) (int, error) {
			return 1, &sink.Refused{Batch: 1, Err: errWorld}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.write = write
			ts := start(t, w, nil)
			c := ts.login()
			c.send("__BATCH__:1:1", "__COMMIT__:1")
			for { // RECEIVED and PENDING perhaps, and then the end
				reply, err := c.in.ReadString('\n')
				if err != nil {
					break
				}
				require.Contains(t, []string{"RECEIVED\n", "PENDING\n"}, reply)
			}
			err := <-ts.served
			require.ErrorContains(t, err, "the sink broke its contract: it "+name)
			require.ErrorContains(t, err, `the stream of "a"`)
			require.ErrorIs(t, ts.Shutdown(context.Background()), err)
			require.Empty(t, w.durable())
			require.Zero(t, w.image("a").Watermark)
			require.Zero(t, w.called().save)
		})
	}
}
