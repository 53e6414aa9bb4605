package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/collector"
)

// collect sends batches with package collector, one record each, over a first link that is cut and others that are not.
// It returns when all are acknowledged.
func (ts *testServer) collect(name string, batches int, first *cut) error {
	links := 0
	c, err := collector.Dial(context.Background(), collector.Options{
		Collector: name, Token: name, Backoff: collector.Backoff{Min: time.Millisecond, Max: 2 * time.Millisecond},
		Log: slog.New(slog.DiscardHandler),
		Dial: func(context.Context) (net.Conn, error) {
			conn, err := ts.connect()
			if links++; links > 1 || err != nil {
				return conn, err
			}
			first.Conn = conn
			return first, nil
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range batches {
		if _, err := c.Send(ctx, fmt.Appendf(nil, "%d", i+1)); err != nil {
			return err
		}
	}
	if err := c.Flush(ctx); err != nil {
		return err
	}
	return c.Close()
}

// The link of the shipped collector is cut after every byte of a conversation of 20 batches, in both directions: each
// record is there once, in order.
func TestB34ShippedCollectorCutAtEveryByte(t *testing.T) {
	const batches = 20
	w := newWorld()
	ts := start(t, w, func(o *Options) {
		o.Auth = func(token []byte) (string, bool) { return string(token), true }
	})
	whole := &cut{out: -1, in: -1}
	require.NoError(t, ts.collect("c-out-0000", batches, whole))
	require.Greater(t, whole.wrote, 400)
	require.Greater(t, whole.at, 150)

	jobs := make(chan func(), 8)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for job := range jobs {
				job()
			}
		})
	}
	add := func(name string, link cut) {
		jobs <- func() {
			if err := ts.collect(name, batches, &link); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for at := 1; at < whole.wrote; at++ {
		add(fmt.Sprintf("c-out-%04d", at), cut{out: at, in: -1})
	}
	for at := range whole.at + 100 { // ACKs may come in more messages than they did
		add(fmt.Sprintf("c-in-%04d", at), cut{out: -1, in: at})
	}
	close(jobs)
	all.Wait()
	got := map[string][]string{}
	for _, record := range w.durable() {
		name, _, _ := strings.Cut(record, "/")
		got[name] = append(got[name], record)
	}
	require.Len(t, got, whole.wrote+whole.at+100)
	for name, list := range got {
		require.Equal(t, records(name, 1, batches), list)
	}
	require.Zero(t, ts.metric("tidemark_lost_batches_total", ""))
}
