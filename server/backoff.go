package server

import (
	"fmt"
	"time"
)

// Backoff is how the wait between tries grows: Min, doubled with each failure in a row, never above
// Max; jitter takes away up to a quarter.
type Backoff struct{ Min, Max time.Duration }

func (b Backoff) check() error {
	if b.Min <= 0 || b.Max < b.Min {
		return fmt.Errorf("server: Backoff is %v to %v, allowed is a minimum above 0 and a maximum of at least it", b.Min, b.Max)
	}
	return nil
}

// wait is the time to wait after the given number of failures in a row, 1 or more; jitter in [0, 1).
func (b Backoff) wait(failures int, jitter float64) time.Duration {
	d := b.Min
	for range failures - 1 {
		if d > b.Max/2 {
			d = b.Max
			break
		}
		d *= 2
	}
	return d - time.Duration(float64(d)*jitter/4)
}
