package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// killAfter is the longest time from the end of the warm-up to SIGKILL: what was stored has to be read again.
const killAfter = 3 * time.Second

// A Kill is what became of the records of one peer whose server was killed in the middle of a load, started again, and
// sent what the collectors still held.
type Kill struct {
	AtKill       uint64 `json:"acknowledged_before_the_kill"`
	Acknowledged uint64 `json:"acknowledged"` // at the end
	Found        uint64 `json:"found"`        // different ones
	Lost         uint64 `json:"lost"`         // acknowledged and not found
	Twice        uint64 `json:"twice"`        // found more than once
	Damaged      uint64 `json:"damaged"`      // found, and no record that was sent
}

// killRound loads a server, kills it, starts it again, lets the collectors send what is not acknowledged, and reads.
func killRound(ctx context.Context, s *Settings, p Peer) (*Kill, error) {
	dir, err := os.MkdirTemp(s.Dir, "bench-"+p.Name()+"-")
	if err != nil {
		return nil, err
	}
	defer settle(dir)
	l, k := newLoad(s, 0), &Kill{}
	if err := loadAndKill(ctx, p, dir, l, warmUp+min(s.Time, killAfter)); err != nil {
		return nil, fmt.Errorf("%s before the kill: %w", p.Name(), err)
	}
	k.AtKill = l.acknowledged()
	if err := k.restart(ctx, s, p, dir, l); err != nil {
		return nil, fmt.Errorf("%s after the kill: %w", p.Name(), err)
	}
	return k, nil
}

// loadAndKill returns when the server is dead and the collectors have noticed it.
func loadAndKill(ctx context.Context, p Peer, dir string, l *Load, long time.Duration) error {
	server, err := p.Start(ctx, dir)
	if err != nil {
		return err
	}
	defer server.Process().Kill()
	ended := make(chan error, 1)
	go func() { ended <- l.run(ctx, server, nil) }()
	select {
	case err := <-ended:
		return server.Process().trouble(fmt.Errorf("the load ended by itself: %w", err))
	case <-time.After(long):
	}
	server.Process().Kill()
	if err := <-ended; ctx.Err() != nil {
		return err
	}
	if l.acknowledged() == 0 {
		return errors.New("nothing was acknowledged")
	}
	return nil
}

// restart brings everything to be acknowledged, and counts.
func (k *Kill) restart(ctx context.Context, s *Settings, p Peer, dir string, l *Load) error {
	server, err := p.Start(ctx, dir)
	if err != nil {
		return err
	}
	defer server.Process().Kill()
	stop := make(chan struct{})
	close(stop) // nothing new
	if err := l.run(ctx, server, stop); err != nil {
		return server.Process().trouble(err)
	}
	tally := newTally(s.Collectors, s.Size)
	if err := server.Read(ctx, tally.add); err != nil {
		return server.Process().trouble(err)
	}
	var acknowledged []uint64
	for _, c := range l.collectors {
		acknowledged = append(acknowledged, c.acked.Load()*uint64(s.Batch))
	}
	k.Acknowledged = l.acknowledged()
	k.Found, k.Lost, k.Twice = tally.sums(acknowledged)
	k.Damaged = tally.Damaged
	return nil
}
