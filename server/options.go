package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
	"unicode/utf8"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/statemachine"
)

// Options say what a Server works with. Sink, Store and Auth are needed; every other zero value
// means the default named beside it.
type Options struct {
	Sink  sink.Sink
	Store store.Store
	Auth  Auth

	// Limits bound each stream; default statemachine.DefaultLimits. History must be at least Ahead.
	Limits statemachine.Limits
	// First says where the numbers of a collector begin when that is not 1.
	First map[string]uint64
	// TotalBytes bounds the payload held by all streams together; default 512 MiB.
	TotalBytes int64

	// Durable holds RECEIVED back until a checkpoint covers the batch, for collectors that forget on
	// RECEIVED. A RECEIVED held longer than ReceivedWait (default 10s) becomes QUEUE_FULL.
	Durable      bool
	ReceivedWait time.Duration
	// RetryAfter is what QUEUE_FULL tells the collector to wait; default 500ms.
	RetryAfter time.Duration
	// Packets unpacks payloads (packet mode); nil: the payload is the record.
	Packets *protocol.PacketDecoder
	// MaxLineBytes is the longest line taken; default protocol.DefaultMaxLine.
	MaxLineBytes int

	// MaxConnections that are open at once; default 10000. One more is closed unanswered.
	MaxConnections int
	// AuthTimeout bounds the whole time until a connection is authenticated; default 5s.
	AuthTimeout time.Duration
	// SeatWait is how long AUTH waits for the collector's other connection to go; default 2s.
	SeatWait time.Duration
	// IdleTimeout closes a connection that sends nothing; default 60s.
	IdleTimeout time.Duration
	// WriteTimeout closes a connection that does not read its replies; default 10s.
	WriteTimeout time.Duration

	// CheckpointInterval is the least time from one barrier to the next; default 0: the next
	// checkpoint begins when the last has finished.
	CheckpointInterval time.Duration
	// Backoff bounds the waits between tries of a sink or store that fails; default 100ms to 5s.
	Backoff Backoff

	// Name is what collectors are told of the server: its name and version; default "tidemark".
	Name string
	// Log gets the server's log; default slog.Default.
	Log *slog.Logger
	// Jitter yields numbers in [0, 1); default math/rand/v2. It is called by several goroutines.
	Jitter func() float64
}

func fallback[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

// complete fills in the defaults and says what can't work.
func (o *Options) complete() error {
	fallback(&o.Limits, statemachine.DefaultLimits())
	fallback(&o.TotalBytes, 512<<20)
	fallback(&o.ReceivedWait, 10*time.Second)
	fallback(&o.RetryAfter, 500*time.Millisecond)
	fallback(&o.MaxLineBytes, protocol.DefaultMaxLine)
	fallback(&o.MaxConnections, 10_000)
	fallback(&o.AuthTimeout, 5*time.Second)
	fallback(&o.SeatWait, 2*time.Second)
	fallback(&o.IdleTimeout, time.Minute)
	fallback(&o.WriteTimeout, 10*time.Second)
	fallback(&o.Backoff, Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second})
	fallback(&o.Name, "tidemark")
	fallback(&o.Log, slog.Default())
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	switch {
	case o.Sink == nil:
		return fmt.Errorf("server: Sink is nil")
	case o.Store == nil:
		return fmt.Errorf("server: Store is nil")
	case o.Auth == nil:
		return fmt.Errorf("server: Auth is nil")
	}
	for _, c := range []struct {
		name  string
		value int64
	}{
		{"TotalBytes", o.TotalBytes}, {"MaxLineBytes", int64(o.MaxLineBytes)}, {"MaxConnections", int64(o.MaxConnections)},
		{"ReceivedWait", int64(o.ReceivedWait)}, {"RetryAfter", int64(o.RetryAfter)}, {"AuthTimeout", int64(o.AuthTimeout)},
		{"SeatWait", int64(o.SeatWait)}, {"IdleTimeout", int64(o.IdleTimeout)}, {"WriteTimeout", int64(o.WriteTimeout)},
		{"CheckpointInterval", int64(o.CheckpointInterval)},
	} {
		if c.value < 0 {
			return fmt.Errorf("server: %s is %d, allowed is 0 for the default, or more", c.name, c.value)
		}
	}
	if len(o.Name) > protocol.MaxText || !utf8.ValidString(o.Name) {
		return fmt.Errorf("server: Name is %.80q, allowed is UTF-8 of at most %d bytes", o.Name, protocol.MaxText)
	}
	for name, first := range o.First {
		if first < 1 || first > statemachine.MaxNumber {
			return fmt.Errorf("server: First[%q] is %d, allowed is 1 to %d", name, first, uint64(statemachine.MaxNumber))
		}
	}
	if err := o.Backoff.check(); err != nil {
		return err
	}
	if err := o.Limits.Check(); err != nil {
		return fmt.Errorf("server: Limits: %w", err)
	}
	return nil
}

// Auth tells which collector a token belongs to. It is called by many goroutines at once and must
// not let its duration tell anything of the right tokens.
type Auth func(token []byte) (collector string, ok bool)

// Tokens is an Auth for a fixed set, from token to collector. It keeps hashes, not tokens.
func Tokens(collectors map[string]string) Auth {
	type entry struct {
		hash [sha256.Size]byte
		name string
	}
	var entries []entry
	for token, name := range collectors {
		entries = append(entries, entry{sha256.Sum256([]byte(token)), name})
	}
	return func(token []byte) (collector string, ok bool) {
		hash := sha256.Sum256(token)
		for i := range entries { // all of them, whichever matches
			if subtle.ConstantTimeCompare(hash[:], entries[i].hash[:]) == 1 {
				collector, ok = entries[i].name, true
			}
		}
		return collector, ok
	}
}
