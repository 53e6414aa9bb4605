package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/statemachine"
)

var background = context.Background()

// delivery makes batches first to last of a collector with three records each, of different lengths.
func delivery(collector string, first, last uint64) sink.Delivery {
	d := sink.Delivery{Collector: collector}
	for id := first; id <= last; id++ {
		d.Batches = append(d.Batches, batch(id, names(collector, id, id)...))
	}
	return d
}

func batch(id uint64, records ...string) statemachine.Batch {
	b := statemachine.Batch{ID: id, Records: len(records), Digest: id}
	for _, r := range records {
		b.Payload = protocol.AppendRecord(b.Payload, []byte(r))
	}
	return b
}

// names are the records of batches first to last.
func names(collector string, first, last uint64) []string {
	var list []string
	for id := first; id <= last; id++ {
		for i := range 3 {
			list = append(list, fmt.Sprintf("%s %d %d %s", collector, id, i, strings.Repeat("*", int(id)%50*i)))
		}
	}
	return list
}

// life is a sink between Recover and Close.
type life struct {
	sink.Sink
	txn sink.Txn
}

func begin(h Harness, position []byte) (*life, error) {
	s, err := h.Open()
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if err := s.Recover(background, position); err != nil {
		return nil, errors.Join(fmt.Errorf("recover: %w", err), s.Close())
	}
	l := &life{Sink: s}
	if l.txn, err = s.Begin(background); err != nil {
		return nil, errors.Join(fmt.Errorf("begin: %w", err), s.Close())
	}
	return l, nil
}

// live opens the sink, recovers it, lets do use it, and closes it.
func live(h Harness, position []byte, do func(*life) error) error {
	l, err := begin(h, position)
	if err != nil {
		return err
	}
	err = do(l)
	if closed := l.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("close: %w", closed))
	}
	return err
}

func (l *life) write(d sink.Delivery) error {
	n, err := l.txn.Write(background, d)
	if err != nil || n != len(d.Batches) {
		return fmt.Errorf("write: %d of %d batches taken: %w", n, len(d.Batches), err)
	}
	return nil
}

// seal is the barrier: the transaction that was sealed, its position, and the next one begun.
func (l *life) seal() (sink.Txn, []byte, error) {
	sealed := l.txn
	position, err := sealed.Seal()
	if err != nil {
		return nil, nil, fmt.Errorf("seal: %w", err)
	}
	if l.txn, err = l.Begin(background); err != nil {
		return nil, nil, fmt.Errorf("begin: %w", err)
	}
	return sealed, position, nil
}

// deliver writes batches first to last of a collector in a transaction of their own.
func (l *life) deliver(collector string, first, last uint64) ([]byte, error) {
	if err := l.write(delivery(collector, first, last)); err != nil {
		return nil, err
	}
	return l.commit()
}

// commit seals and commits what was written.
func (l *life) commit() ([]byte, error) {
	t, position, err := l.seal()
	if err != nil {
		return nil, err
	}
	if err := t.Commit(background); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return position, nil
}

// finds compares what a reader finds with the records that must be there, collector by collector, in
// order. Of an exactly-once sink there is nothing else; of another there may be repetitions, and what
// was not committed.
func finds(h Harness, exactly bool, want ...[]string) error {
	all, err := h.Read()
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	total := 0
	for _, list := range want {
		total += len(list)
		if !subsequence(list, all) {
			return fmt.Errorf("these are not there in this order: %q\nin: %q", list, all)
		}
	}
	if exactly && len(all) != total {
		return fmt.Errorf("%d records are there, want %d: %q", len(all), total, all)
	}
	return nil
}

func subsequence(list, all []string) bool {
	for _, want := range list {
		i := slices.Index(all, want)
		if i < 0 {
			return false
		}
		all = all[i+1:]
	}
	return true
}
