package checkpointlog

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/internal/disk/disktest"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// seated is a disk with a log of checkpoint 1 and n seats of stream a, closed, and where the
// checkpoint and each of the seats ends.
func seated(t *testing.T, n uint64) (d *disktest.Disk, ends []int64) {
	t.Helper()
	d, _ = written(t, 1)
	l := open(t, d)
	load(t, l)
	ends = []int64{l.end}
	for i := uint64(1); i <= n; i++ {
		require.NoError(t, l.Anchor(background, seatChange("a", i)))
		ends = append(ends, l.end)
	}
	require.NoError(t, l.Close())
	return d, ends
}

// storedSeat is what a store holds after checkpoint 1 and seat n of stream a.
func storedSeat(n uint64) *store.Stored {
	st := stored(1)
	if n > 0 {
		st.Seats["a"] = seatImage(n)
	}
	return st
}

// A log cut at any byte has the last seat that is whole.
func TestB14SeatsCutAtEveryByte(t *testing.T) {
	d, ends := seated(t, 3)
	data := d.Files()[path]
	for size := ends[0]; size < int64(len(data)); size++ {
		n := uint64(3)
		for size < ends[n]-int64(headSize) && n > 0 { // its mark may be missing
			n--
		}
		d := with(t, data[:size])
		for range 2 {
			st, err := tryLoad(t, d, Options{})
			require.NoError(t, err)
			require.Equal(t, storedSeat(n), st, "cut to %d bytes", size)
		}
	}
}

// A full disk leaves the seat before, wherever in a frame or its mark it strikes.
func TestB39DiskFullAtEveryByteOfASeat(t *testing.T) {
	d, ends := seated(t, 3)
	before := with(t, d.Files()[path][:ends[2]])
	frame, mark := int(ends[3]-ends[2])-headSize, headSize
	for write, size := range []int{frame, mark} {
		for n := range size {
			d := before.Kill()
			l := open(t, d)
			load(t, l)
			d.Hook = failing(disktest.Write, write, n, syscall.ENOSPC)
			require.ErrorIs(t, l.Anchor(background, seatChange("a", 3)), store.ErrTransient)
			st, err := tryLoad(t, d.Kill(), Options{})
			require.NoError(t, err)
			require.Equal(t, storedSeat(2), st, "write %d, %d bytes", write, n)

			require.NoError(t, l.Anchor(background, seatChange("a", 3)), "there is room again")
			require.NoError(t, l.Close())
			st, err = tryLoad(t, d, Options{})
			require.NoError(t, err)
			require.Equal(t, storedSeat(3), st)
		}
	}
}

// Of the seats in one frame the last one counts, and all of them share its sync.
func TestSeatsShareASync(t *testing.T) {
	d := disktest.New()
	l := open(t, d)
	load(t, l)
	held, goOn := make(chan struct{}), make(chan struct{})
	syncs := 0
	d.Hook = func(c disktest.Call) (int, error) {
		if c.Op == disktest.Sync {
			if syncs++; syncs == 1 {
				close(held)
				<-goOn
			}
		}
		return 0, nil
	}
	const many = 9
	var all sync.WaitGroup
	errs := make(chan error, many+1)
	all.Go(func() { errs <- l.Anchor(background, change("first", 1)) })
	<-held
	for n := 1; n <= many; n++ {
		all.Go(func() { errs <- l.Anchor(background, seatChange("a", uint64(n))) })
		require.Eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.waiting != nil && len(l.waiting.entry.seats) == n
		}, waitLimit, pollEvery)
	}
	close(goOn)
	all.Wait()
	for range many + 1 {
		require.NoError(t, <-errs)
	}
	require.Equal(t, 2, syncs)
	require.NoError(t, l.Close())
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err)
	require.Equal(t, map[string]statemachine.SeatImage{"a": seatImage(many)}, st.Seats)
}

// A rewriting keeps the seats of all shares, also of streams without an image, and those that come
// while it goes on; a log of many seats is rewritten like any other, and stays small.
func TestRewriteKeepsSeats(t *testing.T) {
	d := disktest.New()
	l, err := Open(dir, Options{fs: d, floor: 4000, part: 1000})
	require.NoError(t, err)
	load(t, l)
	want := stored(0)
	for i := range 9 { // stored once, so only the rewriting brings them along
		name := fmt.Sprint("once ", i)
		require.NoError(t, l.Anchor(background, seatChange(name, 2)))
		want.Seats[name] = seatImage(2)
	}
	largest := int64(0)
	for n := uint64(1); n <= 40; n++ {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			require.NoError(t, l.Anchor(background, seatChange(name, n)))
			want.Seats[name] = seatImage(n)
			if n%4 == 0 {
				l.background.Wait()
			}
			l.turn.Lock()
			largest = max(largest, l.end)
			l.turn.Unlock()
		}
	}
	l.background.Wait()
	require.Greater(t, l.header.first, uint64(2), "it was never rewritten in several shares")
	require.NoError(t, l.Close())
	require.Less(t, largest, int64(20_000))
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err)
	require.Equal(t, want, st)
}

// What a log holds counts for when it is rewritten after a restart: not at once, not for ever.
func TestSeatsCountForTheLimit(t *testing.T) {
	st := stored(0)
	for i := range 1000 {
		st.Seats[fmt.Sprint("collector ", i)] = seatImage(17)
	}
	d := disktest.New()
	l := open(t, d)
	load(t, l)
	require.NoError(t, l.create(st, 1))
	require.InDelta(t, l.end, wholeSize(st), float64(l.end)/50)
}

// Recovery keeps the seats before the damage.
func TestB14RecoverSeats(t *testing.T) {
	d, ends := seated(t, 3)
	data := d.Files()[path]
	data[ends[2]+int64(headSize)] ^= 1
	requireDamage(t, data, ends[2], "the last seat")
	d = with(t, data)
	want := storedSeat(2)
	want.Number++
	for _, o := range []Options{{Recover: true}, {}} {
		st, err := tryLoad(t, d, o)
		require.NoError(t, err)
		require.Equal(t, want, st)
	}
}

// Seats as no store writes them are damage, even in a frame that is right by its checks.
func TestB14SeatsThatMakeNoSense(t *testing.T) {
	long := strings.Repeat("i", store.MaxInstance+1)
	bodies := map[string][]byte{
		"no instance":        seatsBody(seat{"a", statemachine.SeatImage{}}),
		"long instance":      seatsBody(seat{"a", statemachine.SeatImage{Instance: long}}),
		"retired without":    seatsBody(seat{"a", statemachine.SeatImage{Instance: "i", Retired: []string{"i", ""}}}),
		"long retired":       seatsBody(seat{"a", statemachine.SeatImage{Instance: "i", Retired: []string{long}}}),
		"too many retired":   seatsBody(seat{"a", statemachine.SeatImage{Instance: "i", Retired: strings.Split(strings.Repeat("i", 17), "")}}),
		"the second of two":  seatsBody(seat{"a", seatImage(2)}, seat{"b", statemachine.SeatImage{}}),
		"a list of none":     append(seatsBody(), 0),
		"more than there is": append(seatsBody(), 2, 1, 'a', 1, 'i', 0),
		"very many":          binary.AppendUvarint(seatsBody(), 1<<62),
		"very many retired":  binary.AppendUvarint(append(seatsBody(), 1, 1, 'a', 1, 'i'), 1<<62),
		"a byte behind":      append(seatsBody(seat{"a", seatImage(2)}), 0),
	}
	whole := seatsBody(seat{"a", seatImage(3)}, seat{"b", seatImage(1)})
	for size := len(seatsBody()) + 1; size < len(whole); size++ {
		bodies[fmt.Sprintf("cut to %d bytes", size)] = whole[:size]
	}
	for name, body := range bodies {
		requireDamage(t, logOf(body), int64(headerSize), name)
	}
	full := seatImage(17)
	full.Instance = long[1:]
	require.Len(t, full.Retired, statemachine.MaxRetired)
	st, err := tryLoad(t, with(t, logOf(seatsBody(seat{"a", full}, seat{"", seatImage(1)}))), Options{})
	require.NoError(t, err)
	require.Equal(t, map[string]statemachine.SeatImage{"a": full, "": seatImage(1)}, st.Seats)
}

// seatsBody is a body with nothing but seats.
func seatsBody(list ...seat) []byte {
	e := entry{seats: list}
	return e.appendFrame(nil, 1, 0)[headSize:]
}
