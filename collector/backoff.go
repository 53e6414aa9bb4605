package collector

import (
	"fmt"
	"time"
)

// Backoff says how the wait between attempts grows: Min, doubled with each failure in a row, never above Max. Jitter
// takes away less than half of a wait, so that collectors do not come back all at once, and whatever it is, the waits do
// not fall before they reach Max.
type Backoff struct{ Min, Max time.Duration }

func (b Backoff) check() error {
	if b.Min <= 0 || b.Max < b.Min {
		return fmt.Errorf("collector: Backoff is %v to %v, allowed is a minimum above 0 and a maximum of at least it", b.Min, b.Max)
	}
	return nil
}

// Wait is how long to wait after the given number of failures in a row, 1 or more; jitter is in [0, 1). It is above 0
// and at most Max.
func (b Backoff) Wait(failures int, jitter float64) time.Duration {
	d := b.Min
	for range failures - 1 {
		if d > b.Max/2 {
			d = b.Max
			break
		}
		d *= 2
	}
	return d - time.Duration(float64(d)*jitter/2)
}
