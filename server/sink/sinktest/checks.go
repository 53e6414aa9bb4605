package sinktest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark/tidemark/server/sink"
)

func order(h Harness) error {
	err := live(h, nil, func(l *life) error {
		for i := uint64(0); i < 12; i++ {
			err := errors.Join(l.write(delivery("a", 3*i+1, 3*i+3)), l.write(delivery("b", i+1, i+1)))
			if err == nil && i%3 == 2 {
				_, err = l.commit()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, finds(h, true, names("a", 1, 36), names("b", 1, 12)))
}

func anyBytes(h Harness) error {
	records := []string{"", "\x00", "a\r", "\r", " ", "\xff\xfe\x80", "a\tb:c", strings.Repeat("long ", 50_000), "ü"}
	err := live(h, nil, func(l *life) error {
		if !l.Traits().Lines {
			records = append(records, "a\nb", "\n", "\n\n")
		}
		d := sink.Delivery{Collector: "a"}
		for i, r := range records {
			d.Batches = append(d.Batches, batch(uint64(i+1), r))
		}
		if err := l.write(d); err != nil {
			return err
		}
		_, err := l.commit()
		return err
	})
	return errors.Join(err, finds(h, true, records))
}

func empty(h Harness) error {
	var first []byte
	err := live(h, nil, func(l *life) (err error) {
		first, err = l.commit()
		return err
	})
	if err != nil {
		return err
	}
	err = live(h, first, func(l *life) error {
		_, err := l.deliver("a", 1, 1)
		return err
	})
	return errors.Join(err, finds(h, true, names("a", 1, 1)))
}

func refused(h Harness) error {
	err := live(h, nil, func(l *life) error {
		bad := batch(2, "fine", "not\na line")
		if !l.Traits().Lines {
			bad.Payload = bad.Payload[:len(bad.Payload)-1] // no sink can take what can't be read
		}
		d := delivery("a", 1, 3)
		d.Batches[1] = bad
		n, err := l.txn.Write(background, d)
		var r *sink.Refused
		if n != 1 || !errors.As(err, &r) || r.Batch != 2 || r.Record != 1 {
			return fmt.Errorf("write: %d batches taken and error %v, want 1 and record 1 of batch 2 refused", n, err)
		}
		_, err = l.deliver("a", 3, 3)
		return err
	})
	return errors.Join(err, finds(h, true, names("a", 1, 1), names("a", 3, 3)))
}

func buffers(h Harness) error {
	err := live(h, nil, func(l *life) error {
		for id := uint64(1); id <= 5; id++ {
			d := delivery("a", id, id)
			if err := l.write(d); err != nil {
				return err
			}
			for i := range d.Batches[0].Payload {
				d.Batches[0].Payload[i] = 'X'
			}
		}
		_, err := l.commit()
		return err
	})
	return errors.Join(err, finds(h, true, names("a", 1, 5)))
}

// crash ends lives with something written, or sealed too, that was not committed.
func crash(h Harness) error {
	var position []byte
	for i := uint64(0); i < 5; i++ {
		err := live(h, position, func(l *life) (err error) {
			if position, err = l.deliver("a", 2*i+1, 2*i+2); err != nil {
				return err
			}
			err = l.write(delivery("a", 2*i+3, 2*i+4))
			if i%2 == 0 {
				_, _, failed := l.seal()
				err = errors.Join(err, failed, l.write(delivery("a", 2*i+5, 2*i+5)))
			}
			return err
		})
		if err == nil {
			err = recovered(h, position, names("a", 1, 2*i+2))
		}
		if err != nil {
			return fmt.Errorf("life %d: %w", i+1, err)
		}
	}
	return nil
}

// recovered takes the sink back to a position and looks.
func recovered(h Harness, position []byte, want ...[]string) error {
	exactly := false
	err := live(h, position, func(l *life) error {
		exactly = l.Traits().ExactlyOnce
		return nil
	})
	return errors.Join(err, finds(h, exactly, want...))
}

func unstored(h Harness) error {
	var first []byte
	err := live(h, nil, func(l *life) (err error) {
		if first, err = l.deliver("a", 1, 3); err != nil {
			return err
		}
		_, err = l.deliver("a", 4, 9)
		return err
	})
	if err != nil {
		return err
	}
	if err := recovered(h, first, names("a", 1, 3)); err != nil {
		return err
	}
	var second []byte
	err = live(h, first, func(l *life) (err error) {
		second, err = l.deliver("a", 4, 5)
		return err
	})
	return errors.Join(err, recovered(h, second, names("a", 1, 5)))
}

func twice(h Harness) error {
	var position []byte
	err := live(h, nil, func(l *life) (err error) {
		if position, err = l.deliver("a", 1, 3); err != nil {
			return err
		}
		return l.write(delivery("a", 4, 4))
	})
	for range 3 {
		err = errors.Join(err, recovered(h, position, names("a", 1, 3)))
	}
	return err
}

func overlap(h Harness) error {
	var position []byte
	last, covered := uint64(0), uint64(0)
	err := live(h, nil, func(l *life) error {
		for range 20 {
			if err := l.write(delivery("a", last+1, last+2)); err != nil {
				return err
			}
			t, sealed, err := l.seal()
			if err != nil {
				return err
			}
			var failed error
			var committing sync.WaitGroup
			committing.Go(func() { failed = t.Commit(background) })
			err = l.write(delivery("a", last+3, last+4))
			committing.Wait()
			if err := errors.Join(err, failed); err != nil {
				return err
			}
			position, covered, last = sealed, last+2, last+4
		}
		return nil
	})
	return errors.Join(err, recovered(h, position, names("a", 1, covered)))
}

// closedInMidWrite closes the sink at a moment that the scheduler chooses.
func closedInMidWrite(h Harness) error {
	l, err := begin(h, nil)
	if err != nil {
		return err
	}
	position, err := l.deliver("a", 1, 3)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	written := make(chan struct{})
	closed := make(chan error, 1)
	go func() {
		<-written
		closed <- l.Close()
	}()
	taking, closing := true, false
	for id := uint64(4); taking && !closing; id++ {
		taking = l.write(delivery("a", id, id)) == nil
		if id == 6 || !taking && id < 6 {
			close(written)
		}
		closing = id > 6 && len(closed) > 0
	}
	if err := <-closed; err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if l.write(delivery("a", 1, 1)) == nil {
		return errors.New("a sink that was closed while it was written to takes more")
	}
	return recovered(h, position, names("a", 1, 3))
}

func afterClose(h Harness) error {
	l, err := begin(h, nil)
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	if n, err := l.txn.Write(background, delivery("a", 1, 1)); err == nil || n != 0 {
		return fmt.Errorf("write after Close: %d batches taken, error %v", n, err)
	}
	return finds(h, true)
}

// full writes into a sink without room, as the server does: again and again, what is left.
func full(h Harness) error {
	var position []byte
	err := live(h, nil, func(l *life) (err error) {
		if err := l.write(delivery("a", 1, 10)); err != nil {
			return err
		}
		failures := 0
		free := h.Fill()
		retry := func(what string, err error) error {
			if !errors.Is(err, sink.ErrTransient) {
				return fmt.Errorf("%s without room: %w, want a transient error", what, err)
			}
			if failures++; failures == 3 {
				free()
			}
			return nil
		}
		d := delivery("a", 11, 40)
		for len(d.Batches) > 0 {
			n, err := l.txn.Write(background, d)
			if n > len(d.Batches) || (err == nil) != (n == len(d.Batches)) {
				return fmt.Errorf("write: %d of %d batches taken and error %v", n, len(d.Batches), err)
			}
			if d.Batches = d.Batches[n:]; err != nil {
				if err := retry("write", err); err != nil {
					return err
				}
			}
		}
		t, sealed, err := l.seal()
		if err != nil {
			return err
		}
		for position = sealed; ; {
			if err := t.Commit(background); err == nil {
				break
			} else if err := retry("commit", err); err != nil {
				return err
			}
		}
		if failures < 3 {
			return fmt.Errorf("without room there were %d transient failures, want 3", failures)
		}
		return nil
	})
	return errors.Join(err, recovered(h, position, names("a", 1, 40)))
}

// patience is how long a write may take while nothing is in its way.
var patience = 10 * time.Second

func slow(h Harness) error {
	var position []byte
	err := live(h, nil, func(l *life) error {
		if err := l.write(delivery("a", 1, 2)); err != nil {
			return err
		}
		t, sealed, err := l.seal()
		if err != nil {
			return err
		}
		position = sealed
		stalled, release := h.Stall()
		release = sync.OnceFunc(release)
		defer release()
		committed := make(chan error, 1)
		go func() { committed <- t.Commit(background) }()
		select {
		case <-stalled:
		case err := <-committed:
			return fmt.Errorf("a stalled commit returned: %w", err)
		}
		written := make(chan error, 1)
		go func() { written <- l.write(delivery("a", 3, 4)) }()
		select {
		case err = <-written:
			release()
		case <-time.After(patience):
			release()
			err = errors.Join(errors.New("nothing is taken while a commit is slow"), <-written)
		}
		return errors.Join(err, <-committed)
	})
	return errors.Join(err, recovered(h, position, names("a", 1, 2)))
}
