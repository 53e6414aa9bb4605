package collector

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// B29: the wait never overflows into nothing, never passes its cap, and never falls before it.
func TestB29Backoff(t *testing.T) {
	for _, b := range []Backoff{
		{time.Millisecond, time.Second}, {100 * time.Millisecond, time.Second}, {30 * time.Second, time.Hour},
		{1, 1}, {1, math.MaxInt64}, {time.Hour, time.Hour},
	} {
		require.NoError(t, b.check())
		for _, jitter := range []float64{0, 0.5, math.Nextafter(1, 0)} {
			before := time.Duration(0)
			for failures := 1; failures <= 200; failures++ {
				wait := b.Wait(failures, jitter)
				require.Positive(t, wait, "%v, failure %d", b, failures)
				require.LessOrEqual(t, wait, b.Max, "%v, failure %d", b, failures)
				require.GreaterOrEqual(t, wait, before, "%v, failure %d", b, failures)
				before = wait
			}
			require.GreaterOrEqual(t, before, b.Max/2, "it comes up to its cap")
		}
		if 2*b.Min <= b.Max {
			require.GreaterOrEqual(t, b.Wait(2, math.Nextafter(1, 0)), b.Wait(1, 0), "whatever the jitter, it grows")
		}
	}
}

func TestBackoffNonsense(t *testing.T) {
	for _, b := range []Backoff{{0, time.Second}, {-1, time.Second}, {2 * time.Second, time.Second}} {
		require.Error(t, b.check(), "%v", b)
	}
}

func TestWindow(t *testing.T) {
	w := newWindow(1024)
	w.full(918)
	require.Equal(t, 918, w.size, "it shrinks to what there was room for")
	w.acknowledged(918*minRest - 1)
	require.Equal(t, 918, w.size, "it rests")
	w.acknowledged(1)
	require.Equal(t, 1024, w.size, "it tries for more, never beyond its limit")
	w.full(918)
	w.acknowledged(918 * minRest)
	require.Equal(t, 918, w.size, "what failed is tried more rarely")
	w.acknowledged(918 * minRest)
	require.Equal(t, 1024, w.size)

	w.full(0)
	require.Equal(t, 1, w.size, "one may always be tried")
	require.Equal(t, minRest, w.rest, "another cause")
	for range 50 {
		w.full(1)
	}
	require.Equal(t, minRest, w.rest, "without a try nothing is learned")
	w.acknowledged(minRest)
	acknowledged := 0
	for w.size < 900 {
		n := w.size
		w.acknowledged(n)
		acknowledged += n
	}
	require.Less(t, acknowledged, 20_000, "it goes on quickly")
}
