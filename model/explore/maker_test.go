package explore

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// broken is the shipped machine with another stream.
type broken struct {
	Shipped
	wrap    func(ShippedStream) Stream
	restore error
}

func (b broken) New(limits *statemachine.Limits) Stream {
	return b.wrap(ShippedStream{statemachine.New(limits)})
}

func (b broken) Restore(limits *statemachine.Limits, img *statemachine.Image) (Stream, error) {
	if b.restore != nil {
		return nil, b.restore
	}
	s, err := statemachine.Restore(limits, img)
	return b.wrap(ShippedStream{s}), err
}

// eager completes a checkpoint before it is stored.
type eager struct{ ShippedStream }

func (s eager) Snapshot(c uint64) { s.ShippedStream.Snapshot(c); s.ShippedStream.Complete(c) }

// careless panics where it has to deliver.
type careless struct{ ShippedStream }

func (s careless) Emit(int) []statemachine.Batch { panic("no sink") }

// idler never has anything to store.
type idler struct{ ShippedStream }

func (s idler) Dirty() bool { return false }

// forgetful puts less into the image when it has put in more before.
type forgetful struct{ ShippedStream }

func (s forgetful) Image(img *statemachine.Image) {
	s.ShippedStream.Image(img)
	if s.Received() > 1 {
		img.Watermark = 0
	}
}

func asIs(s ShippedStream) Stream { return s }

// TestBroken: what is wrong with a machine is found, named, and found again by the script.
func TestBroken(t *testing.T) {
	for name, c := range map[string]struct {
		machine       broken
		property, why string
		steps         int
	}{
		"eager":     {broken{wrap: func(s ShippedStream) Stream { return eager{s} }}, "Covered", "committed is 1, the watermark in the store 0", 10},
		"careless":  {broken{wrap: func(s ShippedStream) Stream { return careless{s} }}, "NoPanic", "no sink", 7},
		"idler":     {broken{wrap: func(s ShippedStream) Stream { return idler{s} }}, "Dirty", "the machine says false", 6},
		"forgetful": {broken{wrap: func(s ShippedStream) Stream { return forgetful{s} }}, "Rises", "fell from 1 to 0", 8},
		"lost":      {broken{wrap: asIs, restore: errors.New("disk gone")}, "NoPanic", "disk gone", 3},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := readConfig(t, "System_LiveHalt")
			got := Explore(cfg, c.machine).Violation
			require.NotNil(t, got)
			require.Equal(t, c.property, got.Property)
			require.Contains(t, got.Why, c.why)
			require.Len(t, got.Steps, c.steps, "%s", got)
			again, err := Run(cfg, c.machine, strings.Join(got.Steps, "\n"))
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}

// TestSameEachTime: the number of processors changes nothing.
func TestSameEachTime(t *testing.T) {
	cfg := readConfig(t, "System_NeverAllAcked")
	want := Explore(cfg, Shipped{})
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	require.Equal(t, want, Explore(cfg, Shipped{}))
}
