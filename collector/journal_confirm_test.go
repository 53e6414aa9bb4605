package collector

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What was stored since the ingress was last reached is known over any number of lives, and of segments.
func TestJournalUnconfirmed(t *testing.T) {
	dir := t.TempDir()
	o := JournalOptions{SegmentBytes: 1}
	life := func(want uint64, do func(*Journal)) {
		t.Helper()
		j := openSmall(t, dir, o)
		require.Equal(t, want, j.Unconfirmed())
		do(j)
		require.NoError(t, j.Close())
	}
	add := func(j *Journal) { require.NoError(t, appends(j, "", "x", "y")) }
	reach := func(j *Journal) { require.NoError(t, j.Number(Numbers{Instance: j.Numbers().Instance, Known: true})) }
	life(1, func(*Journal) {})
	life(1, add)
	life(1, add)
	life(1, func(j *Journal) { reach(j); add(j) })
	life(7, add)
	life(7, func(j *Journal) { require.NoError(t, acknowledge(j, 7)) })
	life(8, reach)
	life(9, add)
	life(9, func(j *Journal) { add(j); reach(j); require.NoError(t, acknowledge(j, 12)) })
	life(13, add)
	life(13, func(j *Journal) {
		require.NoError(t, j.Renew())
		require.False(t, j.Numbers().Known)
	})
	life(15, func(*Journal) {})
}
