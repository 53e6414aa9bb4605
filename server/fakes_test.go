package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// world is what outlives a server: what the sink and the store made durable.
type world struct {
	mu      sync.Mutex
	records []string // durable, in order, "collector/record"
	stored  store.Stored
	number  int // of records that the last checkpoint covers

	// How it behaves; nil: everything succeeds.
	write  func(context.Context, sink.Delivery) (int, error)
	seal   func() error
	commit func(context.Context) error
	save   func(context.Context) error
	anchor func(context.Context) error

	asked   bool // the first transaction of a life only asks where the sink stands, which never fails here
	gaps    bool // numbers are skipped: do not compare watermarks with what is durable
	writing bool // a delivery is in progress
	calls   calls
	faults  []string // what the server did that a sink or store must never see
}

// calls counts what the world was asked.
type calls struct{ write, seal, commit, save, anchor int }

func newWorld() *world {
	return &world{stored: store.Stored{Images: map[string]*statemachine.Image{}, Seats: map[string]statemachine.SeatImage{}}}
}

func (w *world) durable() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records)
}

// set changes how the world behaves, between two calls of it.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// called is what the world was asked so far.
func (w *world) called() calls {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// image is what the store holds of a collector.
func (w *world) image(collector string) statemachine.Image {
	w.mu.Lock()
	defer w.mu.Unlock()
	if img := w.stored.Images[collector]; img != nil {
		return *img
	}
	return statemachine.Image{}
}

// fault notes what must never happen; the lock is held.
func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *world) hook(ctx context.Context, count *int, h *func(context.Context) error) error {
	w.mu.Lock()
	*count++
	f := *h
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx)
}

// Load implements store.Store with a copy, as a file would.
func (w *world) Load(context.Context) (*store.Stored, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := store.Stored{Number: w.stored.Number, Position: w.stored.Position, Images: map[string]*statemachine.Image{},
		Seats: map[string]statemachine.SeatImage{}}
	for name, img := range w.stored.Images {
		dup := *img
		dup.Queue, dup.Missing, dup.Digests = slices.Clone(img.Queue), slices.Clone(img.Missing), slices.Clone(img.Digests)
		c.Images[name] = &dup
	}
	for name, seat := range w.stored.Seats {
		c.Seats[name] = ownSeat(seat)
	}
	return &c, nil
}

func (w *world) apply(changes []store.Change) error {
	for _, c := range changes {
		img := w.stored.Images[c.Collector]
		if img == nil {
			img = new(statemachine.Image)
			w.stored.Images[c.Collector] = img
		}
		if err := img.Apply(slices.Clone(c.Delta)); err != nil {
			return err
		}
	}
	return nil
}

// ownSeat is a copy that shares nothing.
func ownSeat(img statemachine.SeatImage) statemachine.SeatImage {
	return statemachine.SeatImage{Instance: img.Instance, Retired: slices.Clone(img.Retired)}
}

func (w *world) Anchor(ctx context.Context, c store.Change) error {
	if c.Seat != nil {
		if err := store.CheckSeat(c.Seat); err != nil {
			return err
		}
	}
	if err := w.hook(ctx, &w.calls.anchor, &w.anchor); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Seat != nil {
		w.stored.Seats[c.Collector] = ownSeat(*c.Seat)
	}
	if len(c.Delta) == 0 || w.stored.Images[c.Collector] != nil {
		return nil
	}
	return w.apply([]store.Change{c})
}

func (w *world) Save(ctx context.Context, c *store.Checkpoint) error {
	if len(c.Changes) > 0 { // else it is where the sink stands at the beginning
		if err := w.hook(ctx, &w.calls.save, &w.save); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Number <= w.stored.Number {
		return fmt.Errorf("checkpoint %d after %d", c.Number, w.stored.Number)
	}
	if slices.ContainsFunc(c.Changes, func(c store.Change) bool { return c.Seat != nil }) {
		return fmt.Errorf("checkpoint %d: a seat", c.Number)
	}
	w.stored.Number, w.stored.Position = c.Number, c.Position
	if err := w.apply(c.Changes); err != nil {
		return err
	}
	w.compare()
	return nil
}

// compare checks that what is durable in the sink is exactly what the images say was delivered; the
// lock is held.
func (w *world) compare() {
	claimed := uint64(0)
	for _, img := range w.stored.Images {
		claimed += img.Watermark
	}
	if !w.gaps && claimed != uint64(len(w.records)) {
		w.fault("checkpoint %d: the images claim %d records, %d are durable", w.stored.Number, claimed, len(w.records))
	}
}

func (w *world) Close() error { return nil }

// worldSink is the sink side: exactly once, by a position that counts records.
type worldSink struct{ *world }

func (s worldSink) Traits() sink.Traits { return sink.Traits{ExactlyOnce: true, Lines: true} }

func (s worldSink) Recover(_ context.Context, position []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	if position != nil {
		fmt.Sscan(string(position), &n)
	}
	s.records, s.number, s.asked = s.records[:n], n, false
	return nil
}

func (s worldSink) Begin(context.Context) (sink.Txn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.asked
	s.asked = true
	return &worldTxn{world: s.world, first: first}, nil
}

type worldTxn struct {
	*world
	records []string
	sealed  bool
	first   bool
}

func (t *worldTxn) Write(ctx context.Context, d sink.Delivery) (int, error) {
	t.mu.Lock()
	t.calls.write++
	if t.sealed || t.writing || t.first {
		t.fault("a delivery to a transaction that is sealed (%v), in the middle of one (%v), or to the first", t.sealed, t.writing)
	}
	write := t.write
	t.writing = true
	t.mu.Unlock()
	defer t.set(func() { t.writing = false })
	n, err := len(d.Batches), error(nil)
	if write != nil {
		n, err = write(ctx, d)
	}
	for _, b := range d.Batches[:max(0, min(n, len(d.Batches)))] { // some tests claim more
		for record, bad := range protocol.Records(b.Payload) {
			if bad != nil {
				return 0, bad
			}
			t.records = append(t.records, d.Collector+"/"+string(record))
		}
	}
	return n, err
}

func (t *worldTxn) Seal() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first {
		return fmt.Append(nil, t.number), nil
	}
	t.calls.seal++
	if t.writing || t.sealed {
		t.fault("a barrier in the middle of a delivery (%v), or twice (%v)", t.writing, t.sealed)
	}
	if t.seal != nil {
		if err := t.seal(); err != nil {
			return nil, err
		}
	}
	t.sealed = true
	t.number += len(t.records)
	return fmt.Append(nil, t.number), nil
}

func (t *worldTxn) Commit(ctx context.Context) error {
	if t.first {
		return nil
	}
	if err := t.hook(ctx, &t.calls.commit, &t.commit); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.sealed {
		t.fault("a commit without a barrier")
	}
	t.world.records = append(t.world.records, t.records...)
	return nil
}

// errWorld is a failure that does not go away.
var errWorld = errors.New("the disk is on fire")

// passing and full are failures that go away: of the sink, of the store.
var (
	passing = fmt.Errorf("%w: no space left", sink.ErrTransient)
	full    = fmt.Errorf("%w: no space left", store.ErrTransient)
)

// blocked is a call that blocks until opened; entered tells that one came.
type blocked struct {
	entered chan struct{}
	gate    chan struct{}
	open    func()
}

func block() *blocked {
	b := &blocked{entered: make(chan struct{}, 1), gate: make(chan struct{})}
	b.open = sync.OnceFunc(func() { close(b.gate) })
	return b
}

// wait is for the hooks of a world.
func (b *blocked) wait(ctx context.Context) error {
	signal(b.entered)
	select {
	case <-b.gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write takes everything once it is opened.
func (b *blocked) write(ctx context.Context, d sink.Delivery) (int, error) {
	if err := b.wait(ctx); err != nil {
		return 0, err
	}
	return len(d.Batches), nil
}

// never is for tests whose sink takes nothing until they change it.
func never(context.Context, sink.Delivery) (int, error) { return 0, passing }
