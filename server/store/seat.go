package store

import (
	"fmt"

	"github.com/tidemark/tidemark/statemachine"
)

// MaxInstance is how many bytes the name of an instance has at most.
const MaxInstance = 64

// CheckSeat tells what is wrong with a seat that no store takes. Order and meaning of the instances are
// the host's.
func CheckSeat(img *statemachine.SeatImage) error {
	if err := checkInstance(img.Instance); err != nil {
		return err
	}
	if n := len(img.Retired); n > statemachine.MaxRetired {
		return fmt.Errorf("a seat with %d retired instances; allowed: at most %d", n, statemachine.MaxRetired)
	}
	for _, name := range img.Retired {
		if err := checkInstance(name); err != nil {
			return fmt.Errorf("retired: %w", err)
		}
	}
	return nil
}

func checkInstance(name string) error {
	if len(name) < 1 || len(name) > MaxInstance {
		return fmt.Errorf("an instance of %d bytes; allowed: 1 to %d", len(name), MaxInstance)
	}
	return nil
}
