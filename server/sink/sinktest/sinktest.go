package sinktest

import (
	"testing"

	"github.com/tidemark/tidemark/server/sink"
)

// Harness is one place that a sink delivers to.
type Harness struct {
	// Open opens the sink where the last one left it; the check calls Recover.
	Open func() (sink.Sink, error)
	// Read returns the records that a reader finds, in order.
	Read func() ([]string, error)
	// Fill makes the sink run out of room in the middle of the next delivery or Commit, with an error
	// that wraps sink.ErrTransient, until the function it returns is called. Nil when it can't be made to.
	Fill func() (free func())
	// Stall makes the next Commit wait from when the channel is closed until the function is called.
	// Nil when it can't be made to.
	Stall func() (stalled <-chan struct{}, release func())
}

// Check is one part of the contract. Its error says what the sink did wrong.
type Check struct {
	Name string
	Run  func(h Harness) error
	// Needs tells whether a harness has what the check needs; nil: every harness has.
	Needs func(h Harness) bool
}

// Checks is the contract.
func Checks() []Check {
	return []Check{
		{Name: "every record is there once and in order", Run: order},
		{Name: "a record may hold any bytes", Run: anyBytes},
		{Name: "an empty transaction commits", Run: empty},
		{Name: "a refused record takes its batch and the rest along, nothing else", Run: refused},
		{Name: "buffers are the caller's again", Run: buffers},
		{Name: "what is committed survives, what is not is undone", Run: crash},
		{Name: "a commit that the store never learned of is undone", Run: unstored},
		{Name: "recovering again changes nothing", Run: twice},
		{Name: "one transaction commits while the next is written", Run: overlap},
		{Name: "a Close in the middle of writing keeps what was committed", Run: closedInMidWrite},
		{Name: "nothing is taken after Close", Run: afterClose},
		{Name: "no room: whole batches are taken, the rest later", Run: full,
			Needs: func(h Harness) bool { return h.Fill != nil }},
		{Name: "a slow commit does not hold up writing", Run: slow,
			Needs: func(h Harness) bool { return h.Stall != nil }},
	}
}

// Run runs every check that the harness can show, each on a place of its own.
func Run(t *testing.T, place func(t *testing.T) Harness) {
	for _, c := range Checks() {
		if h := place(t); c.Needs == nil || c.Needs(h) {
			t.Run(c.Name, func(t *testing.T) {
				if err := c.Run(place(t)); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
