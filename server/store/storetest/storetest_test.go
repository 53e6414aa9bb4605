package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// fake is a store in memory; bug is what is wrong with it. Its lives share the deltas.
type fake struct {
	bug    string
	mu     *sync.Mutex
	held   *held
	closed bool
}

type held struct {
	number   uint64
	position []byte
	changes  []store.Change
	seats    map[string]statemachine.SeatImage
	back     func() // puts a seat that is kept back
}

func opening(bug string) opener {
	h, mu := &held{seats: map[string]statemachine.SeatImage{}}, &sync.Mutex{}
	return func() (store.Store, error) { return &fake{bug: bug, mu: mu, held: h}, nil }
}

func (f *fake) Load(context.Context) (*store.Stored, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := &store.Stored{Number: f.held.number, Position: slices.Clone(f.held.position), Images: map[string]*statemachine.Image{},
		Seats: maps.Clone(f.held.seats)}
	for _, c := range f.held.changes {
		img := st.Images[c.Collector]
		if img == nil || f.bug == "forgets the image before" {
			img = new(statemachine.Image)
			st.Images[c.Collector] = img
		}
		if err := img.Apply(slices.Clone(c.Delta)); err != nil {
			return nil, err
		}
	}
	if f.bug == "drops the position" {
		st.Position = nil
	}
	if f.bug == "makes up a position" && st.Position == nil {
		st.Position = []byte{}
	}
	return st, nil
}

func (f *fake) put(c store.Change) {
	if f.bug != "keeps buffers" {
		c.Delta = slices.Clone(c.Delta)
	}
	f.held.changes = append(f.held.changes, c)
}

func (f *fake) Anchor(_ context.Context, c store.Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("closed")
	}
	if c.Seat != nil && f.bug != "takes any seat" {
		if err := store.CheckSeat(c.Seat); err != nil {
			return err
		}
	}
	if c.Seat != nil {
		f.putSeat(c.Collector, *c.Seat)
	}
	if len(c.Delta) == 0 && f.bug != "takes a seat for an image" {
		return nil
	}
	known := slices.ContainsFunc(f.held.changes, func(old store.Change) bool { return old.Collector == c.Collector })
	if f.bug == "forgets anchors" || known && f.bug != "a late anchor wins" {
		return nil
	}
	f.put(c)
	if f.bug == "an anchor is a checkpoint" {
		f.held.number++
	}
	return nil
}

func (f *fake) putSeat(name string, img statemachine.SeatImage) {
	old, seated := f.held.seats[name]
	known := slices.ContainsFunc(f.held.changes, func(old store.Change) bool { return old.Collector == name })
	if f.bug != "keeps a seat's list" {
		img.Retired = slices.Clone(img.Retired)
	}
	switch f.bug {
	case "keeps back a seat":
		if f.held.back != nil {
			f.held.back()
		}
		f.held.back = func() { f.held.seats[name] = img }
		return
	case "drops the retired":
		img.Retired = nil
	case "merges the retired":
		img.Retired = slices.Concat(old.Retired, img.Retired)
	}
	if f.bug == "forgets seats" || f.bug == "the first seat stays" && seated ||
		f.bug == "a seat comes with an image only" && known || f.bug == "a seat needs an image" && !known {
		return
	}
	f.held.seats[name] = img
}

func (f *fake) Save(_ context.Context, c *store.Checkpoint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return errors.New("closed")
	case f.bug != "takes seats in a checkpoint" && slices.ContainsFunc(c.Changes, func(c store.Change) bool { return c.Seat != nil }):
		return errors.New("a seat")
	case f.bug == "saves nothing":
		return nil
	case f.bug == "counts by itself":
		f.held.number++
	default:
		f.held.number = c.Number
	}
	f.held.position = c.Position
	if f.bug != "keeps buffers" {
		f.held.position = slices.Clone(c.Position)
	}
	if f.bug == "a checkpoint clears seats" {
		clear(f.held.seats)
	}
	if f.bug == "keeps changed streams only" {
		f.held.changes = nil
	}
	for i, change := range c.Changes {
		if f.bug == "saves half" && i > 0 {
			break
		}
		f.put(change)
	}
	if f.bug == "always fails" {
		return errors.New("no")
	}
	return nil
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = f.bug != "lives on"
	if f.bug == "loses the last on Close" && len(f.held.changes) > 0 {
		f.held.changes = f.held.changes[:len(f.held.changes)-1]
	}
	return nil
}

func run(bug string) (failed []string) {
	for _, c := range Checks() {
		if c.Run(opening(bug)) != nil {
			failed = append(failed, c.Name)
		}
	}
	return failed
}

func TestGoodStorePasses(t *testing.T) {
	require.Empty(t, run(""))
	var mu sync.Mutex
	places := map[string]opener{}
	Run(t, func(dir string) (store.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		if places[dir] == nil {
			places[dir] = opening("")
		}
		return places[dir]()
	})
	require.Len(t, places, len(Checks()))
}

func TestBrokenStoresAreCaught(t *testing.T) {
	for _, bug := range []string{
		"saves nothing", "saves half", "keeps changed streams only", "forgets the image before", "drops the position",
		"makes up a position", "forgets anchors", "a late anchor wins", "an anchor is a checkpoint", "keeps buffers", "counts by itself",
		"lives on", "always fails", "loses the last on Close",
		"forgets seats", "keeps back a seat", "the first seat stays", "a seat comes with an image only", "a seat needs an image",
		"drops the retired", "merges the retired", "keeps a seat's list", "a checkpoint clears seats", "takes any seat",
		"takes a seat for an image", "takes seats in a checkpoint",
	} {
		t.Run(bug, func(t *testing.T) {
			failed := run(bug)
			t.Log(failed)
			require.NotEmpty(t, failed)
		})
	}
}
