package model

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

// scriptCommand is what a line of a script does.
type scriptCommand struct {
	least, most int      // numbers it takes
	options     []string // allowed ones, beside panics
	run         func(*host, arguments) (string, error)
}

const many = 1 << 20

var scriptLimits = []string{"queue-capacity", "queue-bytes", "ahead", "history", "max-checkpoints", "max-nacks", "keep-payloads", "sparse"}

// silent is a command that only changes the stream.
func silent(run func(*host, arguments) error) func(*host, arguments) (string, error) {
	return func(h *host, a arguments) (string, error) { return "", run(h, a) }
}

// scriptCommands are the actions of Stream.tla and System.tla by name, and what a host does around them.
var scriptCommands = map[string]scriptCommand{
	// new: a fresh stream with the default limits, but for the given ones; nothing stored, no connection.
	"new": {0, 0, scriptLimits, runNew},
	// anchor ID: and its image is durable at once.
	"anchor": {1, 1, nil, silent(func(h *host, a arguments) error { return h.anchor(a.numbers[0]) })},
	"lost": {1, 1, nil, func(h *host, a arguments) (string, error) {
		lost, err := h.Lost(a.numbers[0])
		return "lost " + showRanges(lost), err
	}},
	"rebase": {1, 1, nil, silent(func(h *host, a arguments) error { return h.rebase(a.numbers[0]) })},
	"skip":   {1, 1, nil, silent(func(h *host, a arguments) error { return h.skip(a.numbers[0]) })},
	// connect: a new connection; disconnect: it broke. While one is open, receive and commit go through it.
	"connect":    {0, 0, nil, func(h *host, _ arguments) (string, error) { h.link = new(link); return "connected", nil }},
	"disconnect": {0, 0, nil, func(h *host, _ arguments) (string, error) { h.link = nil; return "disconnected", nil }},
	// receive ID... [body=TEXT]: without body each number has its own. receive next: the one above Received.
	"receive": {0, many, []string{"body", "next"}, runReceive},
	// refuse ID...: Deny, the host answers without asking the stream.
	"refuse": {1, many, nil, silent(runRefuse)},
	"commit": {1, many, nil, runCommit},
	// emit [N], settle [N]: without N all that waits, or all that is in flight.
	"emit": {0, 1, nil, func(h *host, a arguments) (string, error) {
		err := h.emit(int(a.first(uint64(len(h.model.queue)))))
		return "to the sink " + showIDs(h.emitted), err
	}},
	"settle": {0, 1, nil, silent(func(h *host, a arguments) error { return h.settle(int(a.first(uint64(len(h.model.inflight))))) })},
	// rollback [C]: without C no open checkpoint may complete any more.
	"rollback": {0, 1, nil, silent(func(h *host, a arguments) error { return h.rollback(a.first(0)) })},
	"resume":   {0, 0, nil, silent(func(h *host, _ arguments) error { return h.Resume() })},
	// snapshot [C], save [C], complete [C], abort [C]: without C the next number, or the last one. Save makes the
	// checkpoint durable, complete does so if need be and tells the stream.
	"snapshot": {0, 1, nil, silent(func(h *host, a arguments) error { return h.snapshot(a.first(h.number + 1)) })},
	"save":     {0, 1, nil, silent(func(h *host, a arguments) error { h.save(a.first(h.number)); return nil })},
	"complete": {0, 1, nil, silent(func(h *host, a arguments) error { h.complete(a.first(h.number)); return nil })},
	"abort":    {0, 1, nil, silent(func(h *host, a arguments) error { h.abort(a.first(h.number)); return nil })},
	// restore: the process ended and another begins from what is stored, with other limits if given.
	"restore": {0, 0, scriptLimits, runRestore},
	"dirty": {0, 0, nil, func(h *host, _ arguments) (string, error) {
		return strconv.FormatBool(h.model.Dirty(&h.known)), nil
	}},
	// state, image, stored, delta: the stream, what a checkpoint would store now, what is stored, and
	// the bytes between the two.
	"state": {0, 0, nil, func(h *host, _ arguments) (string, error) { return h.showState(), nil }},
	"image": {0, 0, nil, func(h *host, _ arguments) (string, error) {
		var img statemachine.Image
		h.model.Image(&img)
		return h.showImage(&img), nil
	}},
	"stored": {0, 0, nil, func(h *host, _ arguments) (string, error) { return h.showImage(&h.stored), nil }},
	"delta": {0, 0, nil, func(h *host, _ arguments) (string, error) {
		if m, makes := h.machine.(differential); makes {
			return hex.EncodeToString(m.AppendDelta(nil)), nil
		}
		return "", nil
	}},
}

func runNew(h *host, a arguments) (string, error) {
	limits := statemachine.DefaultLimits()
	if err := setLimits(&limits, a.options); err != nil {
		return "", err
	}
	return "a new stream", h.fresh(limits)
}

func setLimits(l *statemachine.Limits, options map[string]string) error {
	for key, text := range options {
		n, err := strconv.ParseUint(text, 10, 31)
		is, boolErr := strconv.ParseBool(text)
		switch key {
		case "queue-capacity":
			l.QueueCapacity = int(n)
		case "queue-bytes":
			l.QueueBytes = int64(n)
		case "ahead":
			l.Ahead = n
		case "history":
			l.History = int(n)
		case "max-checkpoints":
			l.MaxCheckpoints = int(n)
		case "max-nacks":
			l.MaxNacks = int(n)
		case "keep-payloads":
			l.KeepPayloads, err = is, boolErr
		case "sparse":
			l.Sparse, err = is, boolErr
		}
		if err != nil {
			return fmt.Errorf("limit %s: %w", key, err)
		}
	}
	return nil
}

// batch is number id with a body, its own when none is given.
func (a arguments) batch(id uint64) statemachine.Batch {
	body, given := a.options["body"]
	if !given {
		body = fmt.Sprint("batch ", id)
	}
	sum := fnv.New64a()
	sum.Write([]byte(body))
	return statemachine.Batch{ID: id, Digest: sum.Sum64(), Records: 1, Payload: []byte(body)}
}

func runReceive(h *host, a arguments) (string, error) {
	if a.options["next"] != "" {
		a.numbers = append(a.numbers, h.model.received+1)
	}
	if len(a.numbers) == 0 {
		return "", fmt.Errorf("receive has no number")
	}
	var replies replyList
	for _, id := range a.numbers {
		reply, err := h.receive(a.batch(id))
		if err != nil {
			return "", err
		}
		replies.add(id, reply.String())
	}
	return replies.String(), nil
}

func runRefuse(h *host, a arguments) error {
	if h.link == nil {
		return fmt.Errorf("no connection")
	}
	for _, id := range a.numbers {
		h.Refuse(id)
	}
	return nil
}

func runCommit(h *host, a arguments) (string, error) {
	var replies replyList
	for _, id := range a.numbers {
		text, err := h.Commit(id)
		if err != nil {
			return "", err
		}
		replies.add(id, text)
	}
	return replies.String(), nil
}

func runRestore(h *host, a arguments) (string, error) {
	if err := setLimits(&h.current, a.options); err != nil {
		return "", err
	}
	return "restored", h.crash()
}

// apply reads a delta in hex, one field a line and a remark behind it, and tries to restore from it.
func (h *host) apply(lines []string) (string, error) {
	var delta []byte
	for _, line := range lines {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		field, err := hex.DecodeString(word)
		if err != nil {
			return "", fmt.Errorf("apply: line %q: %w", line, err)
		}
		delta = append(delta, field...)
	}
	img := cloneImage(&h.stored)
	if err := img.Apply(delta); err != nil {
		return "refused: " + err.Error(), nil
	}
	given := cloneImage(&img)
	if _, err := h.maker.restore(&h.current, &given); err != nil {
		return "refused: " + err.Error(), nil
	}
	return "restored: " + h.showImage(&img), nil
}
