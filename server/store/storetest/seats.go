package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// seatChecks is what the contract says of seats.
func seatChecks() []Check {
	return []Check{
		{"a seat is stored with an image, alone, and before one", seats},
		{"a seat replaces the one before, whole", seatReplaced},
		{"a seat comes back as it was", seatAsItWas},
		{"a late anchor brings its seat and not its image", lateAnchorWithSeat},
		{"a checkpoint leaves seats as they are", seatsStay},
		{"of seats beside checkpoints the last one stays", seatsBeside},
		{"a seat's list is the caller's again", seatBuffers},
		{"a seat that can't be one is refused", badSeats},
		{"a seat in a checkpoint is refused", seatInCheckpoint},
	}
}

func seatOf(instance string, retired ...string) *statemachine.SeatImage {
	return &statemachine.SeatImage{Instance: instance, Retired: retired}
}

// steps runs each step in a life of its own, and then demands what the host stored.
func (h *host) steps(open opener, steps ...func(store.Store) error) error {
	for i, step := range steps {
		err := life(open, func(s store.Store, _ *store.Stored) error { return step(s) })
		if err := errors.Join(err, holds(open, h)); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func seats(open opener) error {
	h := newHost("a", "b")
	return h.steps(open,
		func(s store.Store) error { return h.anchorWith(s, "a", seatOf("a1")) },
		func(s store.Store) error { return h.seat(s, "a", seatOf("a2", "a1")) },
		func(s store.Store) error { return h.seat(s, "b", seatOf("b1")) },
		func(s store.Store) error { return h.anchor(s, "b") },
		func(s store.Store) error { return h.seat(s, "nobody's", seatOf("c1")) },
	)
}

func seatReplaced(open opener) error {
	h := newHost("a")
	err := life(open, func(s store.Store, _ *store.Stored) error {
		return errors.Join(h.anchorWith(s, "a", seatOf("1")), h.seat(s, "a", seatOf("2", "1")), h.seat(s, "a", seatOf("3", "1", "2")))
	})
	if err := errors.Join(err, holds(open, h)); err != nil {
		return err
	}
	return h.steps(open,
		func(s store.Store) error { return h.seat(s, "a", seatOf("4", "3")) }, // fewer than before
		func(s store.Store) error { return h.seat(s, "a", seatOf("1")) },
	)
}

func seatAsItWas(open opener) error {
	h := newHost("a")
	full := seatOf(strings.Repeat("i", store.MaxInstance))
	for i := range statemachine.MaxRetired {
		full.Retired = append(full.Retired, strings.Repeat(string(rune('A'+i)), store.MaxInstance-i))
	}
	odd := seatOf("\x00\xff\n", "é", "\x00", "\x00")
	return h.steps(open,
		func(s store.Store) error { return h.seat(s, "a", full) },
		func(s store.Store) error { return h.seat(s, "a", odd) },
	)
}

func lateAnchorWithSeat(open opener) error {
	h := newHost("a")
	early, _ := h.change("a")
	early.Seat = seatOf("late", "early")
	return h.steps(open, func(s store.Store) error {
		h.work("a", 3)
		err := errors.Join(h.seat(s, "a", seatOf("early")), h.save(s, []byte("p"), "a"))
		h.seats["a"] = *early.Seat
		return errors.Join(err, s.Anchor(context.Background(), early))
	})
}

func seatsStay(open opener) error {
	h := newHost("a", "b")
	work := func(s store.Store) error {
		h.work("a", 3)
		h.work("b", 2)
		return errors.Join(h.save(s, []byte("p"), "a", "b"), h.save(s, []byte("q"), "b"), h.save(s, []byte("r")))
	}
	return h.steps(open, func(s store.Store) error {
		return errors.Join(h.anchorWith(s, "a", seatOf("a1")), h.seat(s, "nobody's", seatOf("c1", "c0")), work(s))
	}, work)
}

func seatsBeside(open opener) error {
	const many, each = 10, 5
	h := newHost("a")
	return h.steps(open, func(s store.Store) error {
		errs := make([]error, many)
		var all sync.WaitGroup
		for i := range many {
			name := fmt.Sprint("seated-", i)
			h.seats[name] = *seatOf(fmt.Sprint(each), name)
			all.Go(func() {
				for n := 1; n <= each && errs[i] == nil; n++ {
					errs[i] = s.Anchor(context.Background(), store.Change{Collector: name, Seat: seatOf(fmt.Sprint(n), name)})
				}
			})
		}
		var err error
		for range 10 {
			h.work("a", 1)
			err = errors.Join(err, h.save(s, []byte("p"), "a"))
		}
		all.Wait()
		return errors.Join(err, errors.Join(errs...))
	})
}

func seatBuffers(open opener) error {
	h := newHost("a")
	return h.steps(open, func(s store.Store) error {
		seat := seatOf("2", "0", "1")
		err := h.seat(s, "a", seat)
		seat.Instance, seat.Retired[0], seat.Retired[1] = "x", "y", "z"
		return err
	})
}

func badSeats(open opener) error {
	h := newHost("a", "b")
	long := strings.Repeat("i", store.MaxInstance+1)
	many := make([]string, statemachine.MaxRetired+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	return h.steps(open, func(s store.Store) error {
		if err := h.seat(s, "a", seatOf("good")); err != nil {
			return err
		}
		for _, bad := range []*statemachine.SeatImage{seatOf(""), seatOf(long), seatOf("i", "ok", ""), seatOf("i", long), seatOf("i", many...)} {
			for _, name := range []string{"a", "b"} {
				change, _ := h.change(name)
				change.Seat = bad
				if s.Anchor(context.Background(), change) == nil {
					return fmt.Errorf("the seat %q is not refused", *bad)
				}
			}
		}
		h.work("b", 1)
		return h.save(s, nil, "b") // the store is as good as before
	})
}

func seatInCheckpoint(open opener) error {
	h := newHost("a")
	return h.steps(open, func(s store.Store) error {
		h.work("a", 1)
		c := h.checkpoint(nil, "a")
		c.Changes[0].Seat = seatOf("i")
		if s.Save(context.Background(), c) == nil {
			return errors.New("it is not")
		}
		c.Changes[0].Seat = nil
		err := s.Save(context.Background(), c)
		h.complete(c.Number)
		return err
	})
}
