package checkpointlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/server/internal/disk/disktest"
)

var errDead = errors.New("the process is gone")

// dying lets k calls through; of the next, if it writes, n bytes, and then nothing ever.
func dying(k, n int) func(disktest.Call) (int, error) {
	return func(c disktest.Call) (int, error) {
		if k--; k >= 0 {
			return 0, nil
		}
		if k == -1 {
			return min(n, c.Bytes), errDead
		}
		return 0, errDead
	}
}

// promised is what processes that died had promised: the highest checkpoint that was saved, and begun;
// the anchors that were begun, true when stored, each with a seat; and the seat of stream a that was
// stored last, and begun.
type promised struct {
	saved, begun       uint64
	anchors            map[string]bool
	seated, seatsBegun uint64
}

// work loads, and saves and anchors until the disk fails it. Log and parts are small, so that there
// are rewritings, in several shares.
func work(d *disktest.Disk, p *promised, until uint64) error {
	l, err := Open(dir, Options{fs: d, floor: 700, part: 500})
	if err != nil {
		return err
	}
	defer l.Close()
	st, err := l.Load(background)
	if err != nil {
		return err
	}
	p.saved, p.begun = st.Number, st.Number
	p.seatsBegun = p.seated
	for p.begun < until {
		p.begun++
		if err := l.Save(background, checkpoint(p.begun)); err != nil {
			return err
		}
		p.saved = p.begun
		l.background.Wait() // the same calls in the same order in each run
		name := fmt.Sprint("anchored beside ", p.begun)
		p.anchors[name] = p.anchors[name] || false
		anchor := change(name, 1)
		anchor.Seat = seatChange(name, 2).Seat
		if err := l.Anchor(background, anchor); err != nil {
			return err
		}
		p.anchors[name] = true
		l.background.Wait()
		if p.begun%3 == 0 {
			p.seatsBegun++
			if err := l.Anchor(background, seatChange("a", p.seatsBegun)); err != nil {
				return err
			}
			p.seated = p.seatsBegun
			l.background.Wait()
		}
	}
	return nil
}

// requirePromised loads, and demands what was promised and nothing that was never begun. It returns
// what is there as the promise from now on.
func requirePromised(t *testing.T, d *disktest.Disk, p promised) promised {
	t.Helper()
	st, err := tryLoad(t, d, Options{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, st.Number, p.saved, "a checkpoint was lost")
	require.LessOrEqual(t, st.Number, p.begun)
	want := stored(st.Number)
	for name, promised := range p.anchors {
		if st.Images[name] == nil {
			require.False(t, promised, "%s was lost", name)
			continue
		}
		want.Images[name], want.Seats[name] = image(1), seatImage(2)
	}
	there := promised{st.Number, st.Number, p.anchors, p.seated, p.seated}
	for n := p.seated; n <= p.seatsBegun; n++ {
		if n > 0 && st.Seats["a"].Instance == seatImage(n).Instance {
			want.Seats["a"] = seatImage(n)
			there.seated, there.seatsBegun = n, n
		}
	}
	require.Equal(t, want, st)
	require.True(t, p.seated == 0 || want.Seats["a"].Instance != "", "the seat of a was lost")
	return there
}

// Whatever call a process dies in, and whatever of the unsynced bytes and names a power cut leaves:
// what was promised is there, what Load returns stays, and it goes on from there.
func TestCrashAnywhere(t *testing.T) {
	const until = 12
	crashes := 0
	for k := 0; ; k++ {
		if !crashAt(t, k, until, &crashes) {
			break
		}
	}
	require.Greater(t, crashes, 1000)
}

func crashAt(t *testing.T, k int, until uint64, crashes *int) (died bool) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprintf("call=%d/seed=%d", k, seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, uint64(k)))
			d := disktest.New()
			d.Hook = dying(k, random.IntN(200))
			p := promised{anchors: map[string]bool{}}
			died = work(d, &p, until) != nil
			*crashes++
			after := cut(d, seed, random)
			p = requirePromised(t, after, p)

			again := after.PowerCut(random.IntN)
			require.Equal(t, p, requirePromised(t, again, p), "what Load returned was not durable")

			again.Hook = dying(random.IntN(40), random.IntN(200))
			_ = work(again, &p, p.saved+5)
			requirePromised(t, again.PowerCut(random.IntN), p)
		})
	}
	return died
}

// cut ends a life: killed, or without power, with nothing, everything or anything of what was not
// synced.
func cut(d *disktest.Disk, seed uint64, random *rand.Rand) *disktest.Disk {
	switch seed {
	case 0:
		return d.Kill()
	case 1:
		return d.PowerCut(func(int) int { return 0 })
	case 2:
		return d.PowerCut(func(n int) int { return n - 1 })
	default:
		return d.PowerCut(random.IntN)
	}
}
