package fuzz

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// bounded runs decode and demands that it allocates at most perByte bytes for each of the n bytes it is given, and
// fixed ones beside them. All that is allocated counts, also what was free again at once: a length that lies is seen
// even when the bytes it announces are missed a moment later.
//
// Others in this process may allocate meanwhile, so a run over the bound is repeated: decode must do the same each
// time, and fails here when none of three runs keeps to the bound.
func bounded(t testing.TB, n, perByte, fixed int, decode func()) {
	t.Helper()
	most := uint64(n)*uint64(perByte) + uint64(fixed)
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		decode()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= most {
			return
		}
	}
	require.LessOrEqual(t, least, most, "bytes allocated for %d bytes; allowed are %d for each and %d", n, perByte, fixed)
}

// The measure itself: a length that lies is found, and what is within the bound is not.
func TestBounded(t *testing.T) {
	var kept []byte
	lying := func() { kept = make([]byte, 1<<20) }
	bounded(t, 1<<20, 1, 64<<10, lying)
	inner := &failing{TB: t}
	bounded(inner, 100, 100, 64<<10, lying)
	require.True(t, inner.failed)
	require.Len(t, kept, 1<<20)
}

// failing is a test whose failures are expected.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }
func (f *failing) FailNow()              { f.failed = true }
