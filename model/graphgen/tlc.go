package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidemark/tidemark/model"
	"github.com/tidemark/tidemark/statemachine"
)

// line is what Export of StreamGraph.tla prints of one step. TLC prints it as a quoted string. The
// fields of a record come in no fixed order, functions as lists of pairs.
type line struct {
	From, Image, Step, To, ToImage json.RawMessage
}

type tlcBatch struct{ ID, Body uint64 }

type tlcStream struct {
	Epoch, Committed, Received uint64
	Anchored, Halted           bool
	Queue, Inflight, Settled   []tlcBatch
	Missing                    []uint64
	Digests                    [][2]uint64
	Checkpoints                [][2]json.RawMessage
	Last                       uint64
	Nacks                      int
}

type tlcImage struct {
	Epoch, Watermark, Received uint64
	Anchored                   bool
	Queue                      []tlcBatch
	Missing                    []uint64
	Digests                    [][2]uint64
}

type tlcStep struct {
	Action                   string
	ID, First, N, Checkpoint uint64
	Batch                    tlcBatch
	Lost                     []uint64
	Reply                    string
}

// strict decodes and refuses fields that nobody here knows: a field added to the specification must
// not be lost on the way.
func strict(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("%.120s: %w", data, err)
	}
	return nil
}

func parseLine(text []byte) (l line, err error) {
	plain, err := strconv.Unquote(string(text))
	if err != nil {
		return l, fmt.Errorf("%.120s: not a quoted step", text)
	}
	return l, strict([]byte(plain), &l)
}

func parseStream(data []byte) (s statemachine.State, err error) {
	var t tlcStream
	if err := strict(data, &t); err != nil {
		return s, err
	}
	s = statemachine.State{
		Epoch: t.Epoch, Anchored: t.Anchored, Committed: t.Committed, Received: t.Received,
		Queue: batches(t.Queue), Inflight: batches(t.Inflight), Settled: batches(t.Settled),
		Missing: ranges(t.Missing), Digests: digests(t.Digests),
		Last: t.Last, Nacks: t.Nacks, Halted: t.Halted,
	}
	for _, pair := range t.Checkpoints {
		var c uint64
		var mark struct {
			Watermark uint64
			Settled   int
		}
		if err := strict(pair[0], &c); err != nil {
			return s, err
		}
		if err := strict(pair[1], &mark); err != nil {
			return s, err
		}
		s.Checkpoints = append(s.Checkpoints, statemachine.Mark{Checkpoint: c, Watermark: mark.Watermark, Settled: mark.Settled})
	}
	slices.SortFunc(s.Checkpoints, func(a, b statemachine.Mark) int { return cmp.Compare(a.Checkpoint, b.Checkpoint) })
	return s, nil
}

func parseImage(data []byte) (i statemachine.Image, err error) {
	var t tlcImage
	if err := strict(data, &t); err != nil {
		return i, err
	}
	return statemachine.Image{
		Epoch: t.Epoch, Anchored: t.Anchored, Watermark: t.Watermark, Received: t.Received,
		Queue: batches(t.Queue), Missing: ranges(t.Missing), Digests: digests(t.Digests),
	}, nil
}

func parseStep(data []byte) (model.Step, error) {
	var t tlcStep
	if err := strict(data, &t); err != nil {
		return model.Step{}, err
	}
	step := model.Step{Call: model.Call{Action: t.Action}, Answer: model.NoAnswer}
	switch t.Action {
	case "Anchor", "Skip":
		step.Arg = t.ID
	case "Commit":
		step.Arg, step.Answer = t.ID, t.Reply
	case "Rebase":
		step.Arg, step.Answer = t.First, model.FormatRanges(ranges(t.Lost))
	case "Receive":
		step.Arg, step.Body, step.Answer = t.Batch.ID, t.Batch.Body, t.Reply
	case "Emit", "Settle":
		step.Arg = t.N
	case "Rollback", "Snapshot", "Complete", "Abort":
		step.Arg = t.Checkpoint
	case "Resume", "Restore":
	default:
		return step, fmt.Errorf("action %q is not known here", t.Action)
	}
	return step, nil
}

func batches(list []tlcBatch) []statemachine.Batch {
	var out []statemachine.Batch
	for _, b := range list {
		out = append(out, statemachine.Batch{ID: b.ID, Digest: b.Body})
	}
	return out
}

// ranges makes canonical intervals of numbers in any order.
func ranges(numbers []uint64) []statemachine.Range {
	slices.Sort(numbers)
	var out []statemachine.Range
	for _, n := range numbers {
		if last := len(out) - 1; last >= 0 && out[last].Last+1 == n {
			out[last].Last = n
		} else {
			out = append(out, statemachine.Range{First: n, Last: n})
		}
	}
	return out
}

func digests(pairs [][2]uint64) []statemachine.Digest {
	var out []statemachine.Digest
	for _, p := range pairs {
		out = append(out, statemachine.Digest{ID: p[0], Sum: p[1]})
	}
	slices.SortFunc(out, func(a, b statemachine.Digest) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
