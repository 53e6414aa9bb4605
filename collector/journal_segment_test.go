package collector

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// files are the names of the segments in a folder.
func files(t require.TestingT, dir string) (names []string) {
	paths, err := filepath.Glob(filepath.Join(dir, "journal.*"))
	require.NoError(t, err)
	for _, path := range paths {
		names = append(names, strings.TrimLeft(strings.TrimPrefix(filepath.Base(path), "journal."), "0"))
	}
	return names
}

// Segments go when all in them is acknowledged, oldest first, and what is left says where it begins.
func TestJournalDropsSegments(t *testing.T) {
	dir := t.TempDir()
	o := JournalOptions{SegmentBytes: 200}
	j := openSmall(t, dir, o)
	numbers := j.Numbers()
	numbers.Known, numbers.Offset = true, 5
	require.NoError(t, j.Number(numbers))
	for i := range 20 {
		require.NoError(t, appends(j, fmt.Sprint("source ", i), strings.Repeat("x", 50)))
	}
	require.Equal(t, []string{"1", "3", "6", "9", "12", "15", "18"}, files(t, dir))
	require.NoError(t, acknowledge(j, 5))
	require.Equal(t, []string{"6", "9", "12", "15", "18"}, files(t, dir))
	require.NoError(t, acknowledge(j, 7))
	require.NoError(t, acknowledge(j, 16))
	require.Equal(t, []string{"15", "18"}, files(t, dir), "17 is held")
	require.NoError(t, j.Close())

	j = openSmall(t, dir, o)
	first, next := j.Held()
	require.Equal(t, [2]uint64{17, 21}, [2]uint64{first, next})
	require.Equal(t, numbers, j.Numbers())
	require.Equal(t, "source 19", string(j.Source()))
	require.Equal(t, uint64(4), j.Records())
	require.NoError(t, acknowledge(j, 20))
	require.Equal(t, []string{"18"}, files(t, dir), "the one that is written to stays")
	used, _ := j.Usage()
	info, err := os.Stat(j.path(18))
	require.NoError(t, err)
	require.Equal(t, info.Size(), used)
	require.NoError(t, os.WriteFile(filepath.Join(dir, tempName), []byte("half"), 0o600))
	require.NoError(t, j.Close())

	j = openSmall(t, dir, o)
	require.NoFileExists(t, filepath.Join(dir, tempName))
	requireHeld(t, j)
}

// What is acknowledged without having been read is counted, and its segments go all the same.
func TestJournalUnread(t *testing.T) {
	j := openSmall(t, t.TempDir(), JournalOptions{SegmentBytes: 100})
	for range 10 {
		require.NoError(t, appends(j, "", "a,b", "c"))
	}
	id, b, ok, err := j.Read()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "1:a,b", fmt.Sprint(id, ":", textOf(b)))
	unread, err := j.Acknowledge(1)
	require.NoError(t, err)
	require.Zero(t, unread)
	unread, err = j.Acknowledge(18)
	require.NoError(t, err)
	require.Equal(t, 9*2+8-1, unread)
	requireHeld(t, j, "19:a,b", "20:c")
	require.Panics(t, func() { j.Acknowledge(21) })
}

// A full buffer waits for acknowledgements, or for the end of its context; one call always fits.
func TestJournalFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := openSmall(t, dir, JournalOptions{MaxBytes: 1000})
		ctx, cancel := context.WithCancel(t.Context())
		big := batchOf(strings.Repeat("x", 300))
		for range 2 {
			_, err := j.Append(ctx, nil, []Batch{big})
			require.NoError(t, err)
		}
		waits := make(chan error, 2)
		go func() { _, err := j.Append(ctx, nil, []Batch{big}); waits <- err }()
		synctest.Wait()
		used, full := j.Usage()
		require.True(t, full)
		require.LessOrEqual(t, used, int64(1000))
		cancel()
		require.ErrorIs(t, <-waits, context.Canceled)
		_, full = j.Usage()
		require.False(t, full)

		before := time.Now()
		go func() { waits <- appends(j, "", strings.Repeat("y", 300)) }()
		synctest.Wait()
		require.NoError(t, acknowledge(j, 1))
		require.NoError(t, <-waits)
		require.Equal(t, before, time.Now(), "it did not wait for longer")
		requireHeld(t, j, "2:"+strings.Repeat("x", 300), "3:"+strings.Repeat("y", 300))
		require.NoError(t, acknowledge(j, 3))
		require.NoError(t, appends(j, "", strings.Repeat("z", 5000)), "alone it fits")
		require.Equal(t, []string{"4"}, files(t, dir))

		go func() { waits <- appends(j, "", "w") }()
		synctest.Wait()
		require.NoError(t, j.Close())
		require.ErrorIs(t, <-waits, ErrClosed)
	})
}

// Calls at the same time share syncs; each gets ids of its own, and all of it is there in order.
func TestJournalManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	j := openSmall(t, dir, JournalOptions{SegmentBytes: 2000})
	var all sync.WaitGroup
	const callers, calls = 16, 20
	ids := make(chan uint64, callers*calls)
	for caller := range callers {
		all.Go(func() {
			for call := range calls {
				id, err := j.Append(t.Context(), nil, []Batch{batchOf(fmt.Sprint(caller, " ", call)), batchOf("second")})
				if err != nil {
					t.Error(err)
					return
				}
				ids <- id
				if call%5 == 0 {
					if err := acknowledge(j, max(id, 2)-2); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	close(ids)
	seen := slices.Sorted(func(yield func(uint64) bool) {
		for id := range ids {
			yield(id)
		}
	})
	require.Len(t, seen, callers*calls)
	for i, id := range seen {
		require.Equal(t, uint64(2*i+1), id)
	}
	first, _ := j.Held()
	list, err := readAll(j)
	require.NoError(t, err)
	require.NoError(t, j.Close())
	j = openSmall(t, dir, JournalOptions{})
	again, err := readAll(j)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(first, ":"), again[0][:len(fmt.Sprint(first, ":"))])
	require.Subset(t, list, again)
}

// While a sync is under way, all that comes waits for one more, not for one each.
func TestJournalSharesSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := openJournal(t, dir)
		f := breakable(j)
		j.lead <- struct{}{} // as if one was written
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if err := appends(j, fmt.Sprint("source ", i), "x"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		j.release()
		all.Wait()
		require.Equal(t, 1, f.syncs)
		_, next := j.Held()
		require.Equal(t, uint64(51), next)
		source := string(j.Source())
		require.NoError(t, j.Close())
		require.Equal(t, source, string(openJournal(t, dir).Source()), "the last one's")
	})
}

// Whatever is done, and however often it is opened anew, a journal holds what a simple list would.
func TestJournalAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal-")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		o := JournalOptions{SegmentBytes: rapid.Int64Range(1, 400).Draw(t, "segment")}
		j, err := OpenJournal(dir, o)
		require.NoError(t, err)
		defer func() { j.Close() }()
		first, held, unread, source, records := uint64(1), []string{}, 0, "", func(list []string) (n int) {
			for _, text := range list {
				n += 1 + strings.Count(text, ",")
			}
			return n
		}
		actions := map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				list := rapid.SliceOfN(rapid.StringMatching("[a-c,]{0,5}"), 1, 4).Draw(t, "batches")
				source = fmt.Sprint("source ", len(held))
				require.NoError(t, appends(j, source, list...))
				held, unread = append(held, list...), unread+len(list)
			},
			"acknowledge": func(t *rapid.T) {
				n := rapid.IntRange(0, len(held)).Draw(t, "batches")
				skipped := max(0, n-(len(held)-unread))
				want := records(held[n-skipped : n])
				first, held, unread = first+uint64(n), held[n:], unread-skipped
				got, err := j.Acknowledge(first - 1)
				require.NoError(t, err)
				require.Equal(t, want, got)
			},
			"read": func(t *rapid.T) {
				id, b, ok, err := j.Read()
				require.NoError(t, err)
				require.Equal(t, unread > 0, ok)
				if ok {
					at := len(held) - unread
					require.Equal(t, fmt.Sprint(first+uint64(at), held[at]), fmt.Sprint(id, textOf(b)))
					unread--
				}
			},
			"finish": func(t *rapid.T) { source = ""; require.NoError(t, j.Finish()) },
			"reopen": func(t *rapid.T) {
				require.NoError(t, j.Close())
				j, err = OpenJournal(dir, o)
				require.NoError(t, err)
				gotFirst, next := j.Held()
				require.Equal(t, [2]uint64{first, first + uint64(len(held))}, [2]uint64{gotFirst, next})
				require.Equal(t, records(held), int(j.Records()))
				unread = len(held)
			},
		}
		names := slices.Sorted(maps.Keys(actions))
		for range rapid.IntRange(1, 15).Draw(t, "steps") { // few: each waits for the disk
			actions[rapid.SampledFrom(names).Draw(t, "action")](t)
			require.Equal(t, source, string(j.Source()))
		}
		actions["reopen"](t)
		for unread > 0 {
			actions["read"](t)
		}
	})
}
