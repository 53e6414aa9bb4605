package collector

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(t, "waited in vain: "+what)
		}
	}
}

// Without a journal Send waits while the window is full, and for no longer than its context.
func TestClient2WaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer2(t)
		o := p.piped()
		o.Window = 2
		c := startClient(t, o)
		require.NoError(t, send(c, []byte("a")))
		require.NoError(t, send(c, []byte("b")))
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan error, 2)
		for range 2 {
			go func() { _, err := c.Send(ctx, []byte("x")); sent <- err }()
		}
		synctest.Wait()
		require.Equal(t, uint64(2), c.Status().Records)
		cancel()
		require.ErrorIs(t, <-sent, context.Canceled)
		require.ErrorIs(t, <-sent, context.Canceled)
		s := p.ready("HELLO(0,0)", welcomes(0, 0))
		go s.serve()
		require.NoError(t, c.Flush(t.Context()))
		id, err := c.Send(t.Context(), []byte("c"))
		require.NoError(t, err)
		require.Equal(t, uint64(3), id, "a call that was given up leaves no gap")
		require.NoError(t, c.Flush(t.Context()))
	})
}

// A full journal makes Send wait, visibly, until something is acknowledged; and the end of the client ends the wait.
func TestClient2FullBuffer(t *testing.T) {
	p := newPeer2(t)
	o := p.options()
	o.Journal = openSmall(t, t.TempDir(), JournalOptions{MaxBytes: 2000})
	c := startClient(t, o)
	record := bytes.Repeat([]byte("x"), 500)
	for range 3 {
		require.NoError(t, send(c, record))
	}
	sent := make(chan error, 1)
	go func() { sent <- send(c, record) }()
	eventually(t, "it waits", func() bool { return c.Status().BufferFull })
	status := c.Status()
	require.LessOrEqual(t, status.BufferBytes, int64(2000))
	require.Equal(t, uint64(3), status.Records)
	s := p.ready("HELLO(0,0)", welcomes(0, 0))
	for range 3 {
		s.request()
	}
	s.say("ACK 2")
	require.NoError(t, <-sent)
	require.False(t, c.Status().BufferFull)
	s.request()

	go func() {
		for {
			if err := send(c, record); err != nil {
				sent <- err
				return
			}
		}
	}()
	eventually(t, "it waits again", func() bool { return c.Status().BufferFull })
	s.say("ERROR BAD_REQUEST x")
	require.ErrorAs(t, <-sent, new(*Refused))
}

// Close ends a Send that waits for room.
func TestClient2ClosesWhileFull(t *testing.T) {
	p := newPeer2(t)
	o := p.options()
	o.Journal = openSmall(t, t.TempDir(), JournalOptions{MaxBytes: 1000})
	c := startClient(t, o)
	sent := make(chan error, 1)
	go func() {
		for {
			if err := send(c, make([]byte, 300)); err != nil {
				sent <- err
				return
			}
		}
	}()
	eventually(t, "it waits", func() bool { return c.Status().BufferFull })
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-sent, ErrClosed)
}

// However much the buffer holds, and whether the ingress takes or not, no more than the window is in memory.
func TestClient2MemoryIsBounded(t *testing.T) {
	const batches, size, window = 600, 64 << 10, 1 << 20
	dir := t.TempDir()
	j := openJournal(t, dir)
	for i := range batches {
		record := append(bytes.Repeat([]byte{byte(i)}, size), fmt.Sprint(i)...)
		_, err := j.Append(t.Context(), nil, []Batch{batchOf(string(record))})
		require.NoError(t, err)
	}
	require.NoError(t, j.Close())

	p := newPeer2(t)
	o := p.options()
	o.Journal = openJournal(t, dir)
	c := startClient(t, o)
	w := welcomes(0, 0)
	w.WindowBytes = window
	s := p.ready("HELLO(0,0)", w)
	held := func() int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, bytes := c.core.Held()
		return bytes
	}
	eventually(t, "the window is in memory", func() bool { return held() >= window-size })
	most := int64(0)
	for i := range batches {
		req := s.request() // slowly: it is acknowledged one by one
		require.Equal(t, uint64(i+1), req.ID)
		require.True(t, bytes.HasSuffix(req.Payload, []byte(fmt.Sprint(i))))
		most = max(most, held())
		if i%100 == 50 {
			require.Less(t, heap(), uint64(16<<20), "the journal has %d bytes", batches*size)
		}
		s.say(fmt.Sprint("ACK ", req.ID))
	}
	require.NoError(t, c.Flush(t.Context()))
	require.LessOrEqual(t, most, int64(window+size+100))
	require.Positive(t, most)
	require.Equal(t, uint64(batches), c.Status().Acknowledged)
	go s.serve()
	require.NoError(t, c.Close())
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// An ingress that stops reading makes nothing grow, and nothing is lost when it goes on.
func TestClient2SlowReader(t *testing.T) {
	p := newPeer2(t)
	o := p.options()
	o.Window = 8
	o.Timeout = time.Minute
	c := startClient(t, o)
	record := bytes.Repeat([]byte("x"), 1<<20)
	for range 8 {
		require.NoError(t, send(c, record))
	}
	s := p.ready("HELLO(0,0)", welcomes(0, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Send(ctx, record)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	go s.serve()
	require.NoError(t, send(c, record))
	require.NoError(t, c.Flush(t.Context()))
	require.Equal(t, uint64(9), c.Status().Acknowledged)
	require.NoError(t, c.Close())
}

// What Send returned for comes through a crash at any byte of the last write; what it did not return for may.
func TestClient2CrashAnywhere(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	require.NoError(t, appends(j, "", "one,1", "two"))
	path := j.path(1)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, appends(j, "", "three", "four,4"))
	require.NoError(t, j.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	p := newPeer2(t)
	o := p.options()
	for n := len(before); n <= len(after); n++ {
		require.NoError(t, os.WriteFile(path, after[:n], 0o600))
		o.Journal = openJournal(t, dir)
		c, err := Dial(t.Context(), o)
		require.NoError(t, err)
		s := p.ready("HELLO(0,0)", welcomes(10, 10))
		s.expect("11:one,1", "12:two")
		last := "12"
		if n == len(after) {
			s.expect("13:three", "14:four,4")
			last = "14"
		}
		s.say("ACK " + last)
		require.NoError(t, c.Flush(t.Context()))
		go s.serve()
		require.NoError(t, c.Close())
	}
	j = openJournal(t, dir)
	requireHeld(t, j)
}

// A buffer whose acknowledgements did not reach the disk asks, and what is safe is not sent again, nor read in vain.
func TestClient2OldWatermark(t *testing.T) {
	dir := t.TempDir()
	j := openSmall(t, dir, JournalOptions{SegmentBytes: 100})
	for i := range 50 {
		require.NoError(t, appends(j, "", fmt.Sprint(i), "x,y"))
	}
	require.NoError(t, j.Number(Numbers{Instance: j.Numbers().Instance, Known: true}))
	require.NoError(t, j.Close())
	p := newPeer2(t)
	o := p.options()
	o.Journal = openSmall(t, dir, JournalOptions{SegmentBytes: 100})
	c := startClient(t, o)
	s := p.ready("HELLO(1,101)", welcomes(97, 98))
	s.expect("99:49", "100:x,y")
	s.say("ACK 100")
	require.NoError(t, c.Flush(t.Context()))
	require.Equal(t, Stats{Records: 150, Acknowledged: 150, Sent: 3}, c.Status().Stats)
	require.Len(t, files(t, dir), 1)
	go s.serve()
	require.NoError(t, c.Close())
}

// What is acknowledged between reading it and bringing it into memory is counted, and not held.
func TestClient2LoadsBehindTheWatermark(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	require.NoError(t, appends(j, "", "a", "b,B", "c"))
	require.NoError(t, j.Number(Numbers{Instance: j.Numbers().Instance, Known: true}))
	require.NoError(t, j.Close())
	j = openJournal(t, dir)
	o := Options{Collector: "edge", Token: "token", Journal: j}
	require.NoError(t, o.complete())
	core, err := o.dialect()
	require.NoError(t, err)
	c := &Client{o: o, core: core, next: 4}
	core.connect(4)
	_, err = core.take(protocol.AppendReply2(nil, protocol.Reply2{Code: protocol.CodeWelcome, Welcome: welcomes(2, 2)}))
	require.NoError(t, err)
	core.stored()
	for range 3 {
		more, err := c.load()
		require.NoError(t, err)
		require.True(t, more)
	}
	require.Equal(t, uint64(3), c.unread)
	held, _ := core.Held()
	require.Equal(t, 1, held)
	more, err := c.load()
	require.NoError(t, err)
	require.False(t, more)
}
