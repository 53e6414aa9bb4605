package model

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

// The fields of a stream and an image as text, one line each: words with a space between, lists
// joined by commas, pairs by colons, "-" for what is empty. Equal values, equal text.

// FormatStream is the line of a stream in a graph file.
func FormatStream(s *statemachine.State) string {
	marks := make([]string, len(s.Checkpoints))
	for i, m := range s.Checkpoints {
		marks[i] = fmt.Sprintf("%d:%d:%d", m.Checkpoint, m.Watermark, m.Settled)
	}
	return strings.Join([]string{
		number(s.Epoch), truth(s.Anchored), number(s.Committed), number(s.Received),
		formatBatches(s.Queue), formatBatches(s.Inflight), formatBatches(s.Settled),
		FormatRanges(s.Missing), formatDigests(s.Digests), list(marks),
		number(s.Last), strconv.Itoa(s.Nacks), truth(s.Halted),
	}, " ")
}

// FormatImage is the line of an image in a graph file.
func FormatImage(i *statemachine.Image) string {
	return strings.Join([]string{
		number(i.Epoch), truth(i.Anchored), number(i.Watermark), number(i.Received),
		formatBatches(i.Queue), FormatRanges(i.Missing), formatDigests(i.Digests),
	}, " ")
}

// FormatStep is the line of a step in a graph file.
func FormatStep(s *Step) string { return fmt.Sprintf("%s %d %d %s", s.Action, s.Arg, s.Body, s.Answer) }

// FormatRanges is a set of numbers: "1-2,4-4", or "-".
func FormatRanges(ranges []statemachine.Range) string {
	words := make([]string, len(ranges))
	for i, r := range ranges {
		words[i] = fmt.Sprintf("%d-%d", r.First, r.Last)
	}
	return list(words)
}

func formatBatches(batches []statemachine.Batch) string {
	words := make([]string, len(batches))
	for i, b := range batches {
		words[i] = fmt.Sprintf("%d:%d", b.ID, b.Digest)
	}
	return list(words)
}

func formatDigests(digests []statemachine.Digest) string {
	words := make([]string, len(digests))
	for i, d := range digests {
		words[i] = fmt.Sprintf("%d:%d", d.ID, d.Sum)
	}
	return list(words)
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func truth(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func list(words []string) string {
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ",")
}

// fields takes the words of a line one by one and keeps the first thing that was wrong.
type fields struct {
	words []string
	err   error
}

func (f *fields) word() string {
	if len(f.words) == 0 {
		f.fail("a word is missing at the end")
		return "0"
	}
	w := f.words[0]
	f.words = f.words[1:]
	return w
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

func (f *fields) parse(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 63)
	if err != nil {
		f.fail("%q is not a number", word)
	}
	return n
}

func (f *fields) number() uint64 { return f.parse(f.word()) }
func (f *fields) int() int       { return int(f.number()) }
func (f *fields) truth() bool    { return f.number() == 1 }

// tuples reads a list of tuples of n numbers.
func (f *fields) tuples(separator string, n int) [][]uint64 {
	word := f.word()
	if word == "-" {
		return nil
	}
	var tuples [][]uint64
	for item := range strings.SplitSeq(word, ",") {
		parts := strings.Split(item, separator)
		if len(parts) != n {
			f.fail("%q does not have %d numbers", item, n)
			return nil
		}
		tuple := make([]uint64, n)
		for i, p := range parts {
			tuple[i] = f.parse(p)
		}
		tuples = append(tuples, tuple)
	}
	return tuples
}

func (f *fields) batches() (list []statemachine.Batch) {
	for _, t := range f.tuples(":", 2) {
		list = append(list, statemachine.Batch{ID: t[0], Digest: t[1], Records: 1})
	}
	return list
}

func (f *fields) ranges() (list []statemachine.Range) {
	for _, t := range f.tuples("-", 2) {
		list = append(list, statemachine.Range{First: t[0], Last: t[1]})
	}
	return list
}

func (f *fields) digests() (list []statemachine.Digest) {
	for _, t := range f.tuples(":", 2) {
		list = append(list, statemachine.Digest{ID: t[0], Sum: t[1]})
	}
	return list
}

func (f *fields) marks() (list []statemachine.Mark) {
	for _, t := range f.tuples(":", 3) {
		list = append(list, statemachine.Mark{Checkpoint: t[0], Watermark: t[1], Settled: int(t[2])})
	}
	return list
}

// stream is the inverse of FormatStream.
func (f *fields) stream() statemachine.State {
	return statemachine.State{
		Epoch: f.number(), Anchored: f.truth(), Committed: f.number(), Received: f.number(),
		Queue: f.batches(), Inflight: f.batches(), Settled: f.batches(),
		Missing: f.ranges(), Digests: f.digests(), Checkpoints: f.marks(),
		Last: f.number(), Nacks: f.int(), Halted: f.truth(),
	}
}

// image is the inverse of FormatImage.
func (f *fields) image() statemachine.Image {
	return statemachine.Image{
		Epoch: f.number(), Anchored: f.truth(), Watermark: f.number(), Received: f.number(),
		Queue: f.batches(), Missing: f.ranges(), Digests: f.digests(),
	}
}

// step is the inverse of FormatStep.
func (f *fields) step() Step {
	return Step{Call: Call{Action: f.word(), Arg: f.number(), Body: f.number()}, Answer: f.word()}
}
