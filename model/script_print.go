package model

import (
	"fmt"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

// field is one field of a stream or a connection as scripts show it.
type field struct{ name, value string }

// fields is all that scripts watch, in the order they print it.
func (h *host) fields() []field {
	if h.machine == nil {
		return nil
	}
	var s statemachine.State
	h.model.State(&s)
	var open []string
	for _, m := range s.Checkpoints {
		open = append(open, fmt.Sprintf("%d froze %d covers %d", m.Checkpoint, m.Watermark, m.Settled))
	}
	var session statemachine.SessionState
	if h.link != nil {
		h.link.model.State(&session)
	}
	return []field{
		{"epoch", fmt.Sprint(s.Epoch - h.born)},
		{"anchored", fmt.Sprint(s.Anchored)},
		{"committed", fmt.Sprint(s.Committed)},
		{"watermark", fmt.Sprint(h.model.Watermark())},
		{"received", fmt.Sprint(s.Received)},
		{"queue", showIDs(s.Queue)},
		{"inflight", showIDs(s.Inflight)},
		{"settled", showIDs(s.Settled)},
		{"missing", showRanges(s.Missing)},
		{"checkpoints", "[" + strings.Join(open, ", ") + "]"},
		{"nacks", fmt.Sprint(s.Nacks)},
		{"halted", fmt.Sprint(s.Halted)},
		{"refused", showRanges(session.Refused)},
		{"told", fmt.Sprint(session.Told)},
	}
}

// changes lists the fields whose value is another one now; of a new stream none.
func changes(before, after []field) string {
	var list []string
	for i, f := range after {
		if before != nil && before[i] != f {
			list = append(list, f.name+"="+f.value)
		}
	}
	return strings.Join(list, " ")
}

// showState is every field that is not empty, and what only this command shows.
func (h *host) showState() string {
	var list []string
	for _, f := range h.fields() {
		if f.value != "0" && f.value != "false" && f.value != "[]" {
			list = append(list, f.name+"="+f.value)
		}
	}
	list = append(list, "digests="+showRanges(domain(h.model.digests).ranges()), fmt.Sprintf("last=%d", h.model.last))
	if h.link != nil {
		list = append(list, fmt.Sprintf("named=%d", h.link.model.named))
	}
	return strings.Join(list, " ")
}

func (h *host) showImage(img *statemachine.Image) string {
	known := set{}
	for _, d := range img.Digests {
		known[d.ID] = true
	}
	return fmt.Sprintf("epoch=%d anchored=%t watermark=%d received=%d queue=%s missing=%s digests=%s",
		img.Epoch-h.born, img.Anchored, img.Watermark, img.Received, showIDs(img.Queue), showRanges(img.Missing), showRanges(known.ranges()))
}

// showIDs keeps the order and draws rising neighbours together: [1-3 2].
func showIDs(batches []statemachine.Batch) string {
	var list []statemachine.Range
	for _, b := range batches {
		if n := len(list); n > 0 && list[n-1].Last+1 == b.ID {
			list[n-1].Last = b.ID
		} else {
			list = append(list, statemachine.Range{First: b.ID, Last: b.ID})
		}
	}
	return showRanges(list)
}

func showRanges(list []statemachine.Range) string {
	var text []string
	for _, r := range list {
		text = append(text, showRange(r))
	}
	return "[" + strings.Join(text, " ") + "]"
}

func showRange(r statemachine.Range) string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// replyList draws equal answers to neighbours together: "1-3 RECEIVED, 4 QUEUE_FULL".
type replyList []struct {
	statemachine.Range
	text string
}

func (l *replyList) add(id uint64, text string) {
	if n := len(*l); n > 0 && (*l)[n-1].Last+1 == id && (*l)[n-1].text == text {
		(*l)[n-1].Last = id
		return
	}
	*l = append(*l, struct {
		statemachine.Range
		text string
	}{statemachine.Range{First: id, Last: id}, text})
}

func (l replyList) String() string {
	var list []string
	for _, r := range l {
		list = append(list, showRange(r.Range)+" "+r.text)
	}
	return strings.Join(list, ", ")
}
