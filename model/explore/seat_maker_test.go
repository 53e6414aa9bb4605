package explore

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/statemachine"
)

// brokenSeats are shipped seats with another Ready.
type brokenSeats struct {
	Shipped
	ready func(ShippedSeat, Stream, uint64) (lost []statemachine.Range, stored, ok bool)
}

type brokenSeat struct {
	ShippedSeat
	*brokenSeats
}

func (b *brokenSeats) RestoreSeat(img statemachine.SeatImage) Seat {
	return brokenSeat{shippedSeat(img), b}
}

func (t brokenSeat) Ready(s Stream, conn uint64) (lost []statemachine.Range, stored, ok bool) {
	return t.ready(t.ShippedSeat, s, conn)
}

// greedyCollectors count the window from what they hold, not from what they were told.
type greedyCollectors struct{ PlainCollectors }

type greedyCollector struct{ *plainCollector }

func (greedyCollectors) NewCollector(c *SeatConstants, instance string) Collector {
	return greedyCollector{PlainCollectors{}.NewCollector(c, instance).(*plainCollector)}
}

func (k greedyCollector) CopyFrom(o Collector) {
	k.plainCollector.CopyFrom(o.(greedyCollector).plainCollector)
}

func (k greedyCollector) SendBatch() (id uint64, skip, ok bool) {
	told := k.acked
	k.acked = k.first - 1
	defer func() { k.acked = told }()
	return k.plainCollector.SendBatch()
}

// TestBrokenSeat: what is wrong with a seat or a collector is found, named, and found again by the script.
func TestBrokenSeat(t *testing.T) {
	unstored := func(seat ShippedSeat, s Stream, conn uint64) (lost []statemachine.Range, stored, ok bool) {
		lost, _, ok = seat.Ready(s, conn)
		return lost, true, ok
	}
	silent := func(seat ShippedSeat, s Stream, conn uint64) (lost []statemachine.Range, stored, ok bool) {
		_, stored, ok = seat.Ready(s, conn)
		return nil, stored, ok
	}
	loud := func(seat ShippedSeat, s Stream, conn uint64) (lost []statemachine.Range, stored, ok bool) {
		_, stored, ok = seat.Ready(s, conn)
		return []statemachine.Range{{First: 1, Last: 1}}, stored, ok
	}
	for name, c := range map[string]struct {
		path       string
		seats      SeatMaker
		collectors CollectorMaker
		property   string
		steps      int
	}{
		"unstored": {specDir + "/Seat_Live.cfg", &brokenSeats{ready: unstored}, PlainCollectors{}, "SeatSound", 5},
		"silent":   {specDir + "/Seat_Live.cfg", &brokenSeats{ready: silent}, PlainCollectors{}, "Reported", 19},
		"loud":     {specDir + "/Seat_Live.cfg", &brokenSeats{ready: loud}, PlainCollectors{}, "LostIsGone", 6},
		"greedy":   {"testdata/Seat_Window.cfg", Shipped{}, greedyCollectors{}, "NoRefusal", 19},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := ReadSeatConfig(c.path)
			require.NoError(t, err)
			got := ExploreSeat(cfg, c.seats, c.collectors).Violation
			require.NotNil(t, got)
			require.Equal(t, c.property, got.Property, "%s", got)
			require.Len(t, got.Steps, c.steps, "%s", got)
			again, err := RunSeat(cfg, c.seats, c.collectors, strings.Join(got.Steps, "\n"))
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}
