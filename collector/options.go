package collector

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	random "math/rand/v2"
	"net"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark/tidemark/protocol"
)

// Options say where a Client sends to. Address and Token are needed, and Collector in dialect 2; every other zero value
// means the default named beside it.
type Options struct {
	Address   string // HOST:PORT
	Collector string // name of this collector: 1 to 64 letters, digits, dots, underscores and hyphens
	Token     string
	Dialect   int // 1 or 2; default 2

	// Journal keeps what is not acknowledged; the client closes it. nil: nothing outlives the process, and Send waits while
	// Window is full.
	Journal *Journal
	// Window is how many batches may be above the watermark and on their way, 1 to 4096; default 512. In dialect 1, where
	// each record is a batch, it must not be above the history of the ingress; in dialect 2 the ingress may ask for less.
	Window int
	// BatchRecords is how many records a batch has at most, in dialect 2; default: as many as one Send is given.
	BatchRecords int
	// Backoff bounds the waits between connections, and between tries of what was refused; default 100ms to 5s.
	Backoff Backoff
	// Timeout is how long a reply, a write and a dial may take; default 30s. It must be above the time for which the
	// ingress may hold a reply back. In dialect 2 the ingress says how long it may be silent, once it is connected.
	Timeout time.Duration
	// Rejected is for how long REJECTED is tried again: our own last connection may linger; default 2m.
	Rejected time.Duration

	// OnAck is told of each new watermark: all batches up to this id are acknowledged. It is called by one goroutine, in
	// order, and must not block.
	OnAck func(id uint64)
	// OnRefused is told, in dialect 2, of a batch that the ingress refused for good. If it returns true the batch is given
	// up: the ingress is told to go on without it, and reports it as lost. It may be called again for the same batch after
	// a restart. Otherwise, and without it, the client ends with the error and keeps all it holds. It must not block.
	OnRefused func(*Refused) (skip bool)

	// Log tells of connections that end; default: nothing.
	Log *slog.Logger
	// Jitter yields numbers in [0, 1); default math/rand/v2.
	Jitter func() float64
	// Random yields the bytes of the instance when there is no journal; default crypto/rand.
	Random io.Reader
	// Dial opens a connection; default: TCP to Address.
	Dial func(context.Context) (net.Conn, error)
}

const (
	maxWindow = 4096     // the history of an ingress by default
	maxToken  = 4087     // an AUTH line has at most 4 KiB
	maxBytes  = 64 << 20 // of payloads in memory, but always one batch
)

func fallback[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

func (o *Options) complete() error {
	fallback(&o.Dialect, 2)
	fallback(&o.Window, 512)
	fallback(&o.BatchRecords, protocol.MaxCount)
	fallback(&o.Backoff, Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second})
	fallback(&o.Timeout, 30*time.Second)
	fallback(&o.Rejected, 2*time.Minute)
	fallback(&o.Log, slog.New(slog.DiscardHandler))
	if o.Jitter == nil {
		o.Jitter = random.Float64
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Dial == nil {
		dialer := net.Dialer{Timeout: o.Timeout, KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		}}
		o.Dial = func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", o.Address) }
	}
	return o.check()
}

func (o *Options) check() error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if o.Dialect != 1 && o.Dialect != 2 {
		return fmt.Errorf("collector: Dialect is %d, allowed are 1 and 2", o.Dialect)
	}
	if o.Window < 1 || o.Window > maxWindow {
		return fmt.Errorf("collector: Window is %d, allowed is 1 to %d", o.Window, maxWindow)
	}
	if o.BatchRecords < 1 {
		return fmt.Errorf("collector: BatchRecords is %d, allowed is at least 1", o.BatchRecords)
	}
	if n := len(o.Token); n < 1 || n > maxToken || strings.Contains(o.Token, "\n") {
		return fmt.Errorf("collector: Token has %d bytes, allowed are 1 to %d without an LF", n, maxToken)
	}
	if o.Dialect == 2 && !utf8.ValidString(o.Token) {
		return fmt.Errorf("collector: Token is not UTF-8, which dialect 2 needs")
	}
	if n := o.Collector; o.Dialect == 2 && (len(n) < 1 || len(n) > 64 || strings.Trim(n, letters) != "" || strings.Trim(n, ".") == "") {
		return fmt.Errorf("collector: Collector is %q, allowed are 1 to 64 letters, digits, dots, underscores and hyphens, but not dots alone", n)
	}
	return o.Backoff.check()
}

// dialect makes the core of a client, which goes on where its journal ends, or begins.
func (o *Options) dialect() (dialect, error) {
	first, sure, numbers := uint64(1), uint64(1), Numbers{}
	if o.Journal != nil {
		first, _ = o.Journal.Held()
		sure = o.Journal.Unconfirmed()
		numbers = o.Journal.Numbers()
	} else {
		instance, err := newInstance(o.Random)
		if err != nil {
			return nil, fmt.Errorf("collector: %w", err)
		}
		numbers.Instance = instance
	}
	if o.Dialect == 2 {
		limits := Limits2{Batches: uint64(o.Window), Bytes: maxBytes}
		return &counted{Core2: NewCore2(o.Collector, o.Token, first, sure, numbers, limits), records: o.BatchRecords, log: o.Log}, nil
	}
	if o.Journal != nil { // dialect 1 counts from 1, and the ingress never says otherwise
		numbers.Known = true
		if err := o.Journal.Number(numbers); err != nil {
			return nil, err
		}
	}
	offset := uint64(numbers.Offset)
	return &lines{NewCore(first+offset, nil, o.Window, o.Backoff, o.Jitter), offset, o.Token}, nil
}
