package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// Check is one part of the contract. Run gets a way to open the store: at first one that was never
// used, then, after a Close, what was left of it. Its error says what the store did wrong.
type Check struct {
	Name string
	Run  func(open func() (store.Store, error)) error
}

// Checks is the contract.
func Checks() []Check {
	return append([]Check{
		{"a first run holds nothing", firstRun},
		{"the last checkpoint comes back whole", lastCheckpoint},
		{"what a checkpoint does not name stays", unchanged},
		{"a position comes back as it was", positions},
		{"an anchor is stored without a checkpoint", anchors},
		{"an anchor that comes late changes nothing", lateAnchor},
		{"anchors beside checkpoints are all stored", beside},
		{"buffers are the caller's again", buffers},
		{"lives follow each other", lives},
		{"nothing is stored after Close", afterClose},
		{"a Close beside Save and Anchor keeps what was promised", closedInMidWrite},
	}, seatChecks()...)
}

// Run runs every check on a store of its own; open opens the store in a directory.
func Run(t *testing.T, open func(dir string) (store.Store, error)) {
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.Run(func() (store.Store, error) { return open(dir) }); err != nil {
				t.Fatal(err)
			}
		})
	}
}

type opener = func() (store.Store, error)

// life opens the store, hands over what it holds, and closes it.
func life(open opener, live func(store.Store, *store.Stored) error) error {
	s, err := open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	st, err := s.Load(context.Background())
	if err != nil {
		return errors.Join(fmt.Errorf("load: %w", err), s.Close())
	}
	if err := live(s, st); err != nil {
		return errors.Join(err, s.Close())
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// holds compares what a store gives back.
func holds(open opener, h *host) error {
	return life(open, func(_ store.Store, st *store.Stored) error { return h.same(st) })
}

func (h *host) same(st *store.Stored) error {
	if st.Number != h.saved {
		return fmt.Errorf("checkpoint is %d, want %d", st.Number, h.saved)
	}
	if string(st.Position) != string(h.position) || (st.Position == nil) != (h.position == nil) {
		return fmt.Errorf("position is %q, want %q", st.Position, h.position)
	}
	if len(st.Images) != len(h.images) || len(st.Seats) != len(h.seats) {
		return fmt.Errorf("%d images and %d seats, want %d and %d", len(st.Images), len(st.Seats), len(h.images), len(h.seats))
	}
	for name, want := range h.seats {
		if got, ok := st.Seats[name]; !ok || got.Instance != want.Instance || !slices.Equal(got.Retired, want.Retired) {
			return fmt.Errorf("seat of %q is %q, want %q", name, got, want)
		}
	}
	for name, want := range h.images {
		got := st.Images[name]
		if got == nil {
			return fmt.Errorf("no image of %q", name)
		}
		if g, w := plain(got), plain(want); !reflect.DeepEqual(g, w) {
			return fmt.Errorf("image of %q is %+v, want %+v", name, g, w)
		}
	}
	return nil
}

// plain makes empty lists equal, however they came to be empty.
func plain(img *statemachine.Image) statemachine.Image {
	p := *img
	p.Queue = append([]statemachine.Batch{}, img.Queue...)
	p.Missing = append([]statemachine.Range{}, img.Missing...)
	p.Digests = append([]statemachine.Digest{}, img.Digests...)
	return p
}

func firstRun(open opener) error {
	for range 2 {
		if err := holds(open, newHost()); err != nil {
			return err
		}
	}
	return nil
}

func lastCheckpoint(open opener) error {
	h := newHost("a", "b")
	err := life(open, func(s store.Store, _ *store.Stored) error {
		for range 5 {
			h.work("a", 3)
			h.work("b", 1)
			if err := h.save(s, []byte("here"), "a", "b"); err != nil {
				return err
			}
			h.next += 3 // numbers rise, not always by one
		}
		return nil
	})
	return errors.Join(err, holds(open, h))
}

func unchanged(open opener) error {
	h := newHost("a", "b", "c")
	err := life(open, func(s store.Store, _ *store.Stored) error {
		for _, names := range [][]string{{"a", "b", "c"}, {"b"}, {"a"}, {"b"}} {
			for _, name := range names {
				h.work(name, 2)
			}
			if err := h.save(s, []byte("p"), names...); err != nil {
				return err
			}
		}
		return h.save(s, []byte("q")) // a checkpoint may change no stream at all
	})
	return errors.Join(err, holds(open, h))
}

func positions(open opener) error {
	h := newHost("a")
	long := make([]byte, 3000)
	for i := range long {
		long[i] = byte(i)
	}
	for _, p := range [][]byte{long, []byte("x"), nil} {
		err := life(open, func(s store.Store, st *store.Stored) error { return h.save(s, p, "a") })
		if err := errors.Join(err, holds(open, h)); err != nil {
			return err
		}
	}
	return nil
}

func anchors(open opener) error {
	h := newHost("a", "b")
	err := life(open, func(s store.Store, _ *store.Stored) error { return h.anchor(s, "a") })
	if err := errors.Join(err, holds(open, h)); err != nil {
		return err
	}
	err = life(open, func(s store.Store, _ *store.Stored) error {
		h.work("a", 4)
		return errors.Join(h.save(s, []byte("p"), "a"), h.anchor(s, "b"))
	})
	return errors.Join(err, holds(open, h))
}

func lateAnchor(open opener) error {
	h := newHost("a")
	early, _ := h.change("a")
	err := life(open, func(s store.Store, _ *store.Stored) error {
		h.work("a", 3)
		return errors.Join(h.save(s, []byte("p"), "a"), s.Anchor(context.Background(), early))
	})
	return errors.Join(err, holds(open, h))
}

func beside(open opener) error {
	const many = 40
	var names []string
	for i := range many {
		names = append(names, fmt.Sprint("anchored-", i))
	}
	h := newHost(append(names, "a")...)
	err := life(open, func(s store.Store, _ *store.Stored) error {
		errs := make([]error, many)
		var all sync.WaitGroup
		for i, name := range names {
			change, img := h.change(name)
			h.images[name] = img
			all.Go(func() { errs[i] = s.Anchor(context.Background(), change) })
		}
		var err error
		for range 10 {
			h.work("a", 1)
			err = errors.Join(err, h.save(s, []byte("p"), "a"))
		}
		all.Wait()
		return errors.Join(err, errors.Join(errs...))
	})
	return errors.Join(err, holds(open, h))
}

func buffers(open opener) error {
	h := newHost("a", "b")
	scribble := func(b []byte) {
		for i := range b {
			b[i] = 0xee
		}
	}
	err := life(open, func(s store.Store, _ *store.Stored) error {
		change, img := h.change("b")
		h.images["b"] = img
		if err := s.Anchor(context.Background(), change); err != nil {
			return err
		}
		scribble(change.Delta)
		for range 3 {
			h.work("a", 2)
			c := h.checkpoint([]byte("position"), "a")
			if err := s.Save(context.Background(), c); err != nil {
				return err
			}
			h.complete(c.Number)
			scribble(c.Position)
			scribble(c.Changes[0].Delta)
		}
		return nil
	})
	return errors.Join(err, holds(open, h))
}

func lives(open opener) error {
	h := newHost("a", "b")
	for range 4 {
		err := life(open, func(s store.Store, st *store.Stored) error {
			if err := h.same(st); err != nil {
				return err
			}
			if err := h.restore(st); err != nil {
				return err
			}
			h.work("a", 3)
			h.work("b", 1)
			return errors.Join(h.save(s, []byte("p"), "a", "b"), h.save(s, []byte("q"), "b"))
		})
		if err != nil {
			return err
		}
	}
	return holds(open, h)
}

func afterClose(open opener) error {
	h := newHost("a")
	s, err := open()
	if err != nil {
		return err
	}
	if _, err := s.Load(context.Background()); err != nil {
		return errors.Join(err, s.Close())
	}
	if err := s.Close(); err != nil {
		return err
	}
	change, _ := h.change("a")
	if s.Anchor(context.Background(), change) == nil {
		return errors.New("Anchor after Close succeeds")
	}
	if s.Anchor(context.Background(), store.Change{Collector: "a", Seat: seatOf("i")}) == nil {
		return errors.New("Anchor of a seat after Close succeeds")
	}
	if s.Save(context.Background(), h.checkpoint(nil, "a")) == nil {
		return errors.New("Save after Close succeeds")
	}
	return holds(open, newHost())
}

// closedInMidWrite closes the store at a moment that the scheduler chooses: what was promised before
// must be there.
func closedInMidWrite(open opener) error {
	h := newHost("a", "b")
	s, err := open()
	if err != nil {
		return err
	}
	if _, err := s.Load(context.Background()); err != nil {
		return errors.Join(err, s.Close())
	}
	change, img := h.change("b")
	change.Seat = seatOf("2", "1")
	saving := make(chan struct{})
	closed, anchoring := make(chan error, 1), make(chan error, 1)
	go func() { anchoring <- s.Anchor(context.Background(), change) }()
	go func() {
		<-saving
		closed <- s.Close()
	}()
	closing := false
	for i := 1; !closing; i++ {
		h.work("a", 1)
		failed := h.save(s, []byte("p"), "a") != nil
		if i == 5 || failed && i < 5 {
			close(saving)
		}
		closing = failed || i > 5 && len(closed) > 0
	}
	if err := <-closed; err != nil {
		return fmt.Errorf("close: %w", err)
	}
	anchorErr := <-anchoring
	anchored := func() {
		h.images["b"] = img
		h.sits("b", change.Seat)
	}
	if anchorErr == nil {
		anchored()
	}
	return life(open, func(_ store.Store, st *store.Stored) error {
		if st.Images["b"] != nil && anchorErr != nil {
			anchored() // it failed, and may be stored all the same
		}
		if st.Number != h.saved && st.Number == h.begun {
			h.complete(h.begun) // likewise
		}
		return h.same(st)
	})
}
