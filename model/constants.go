package model

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

// Constants are the constants of a StreamGraph config: the limits of the stream and the bounds of
// the graph.
type Constants struct {
	Limits                               statemachine.Limits
	LastBatch, LastCheckpoint, LastEpoch uint64
	Bodies                               []uint64
}

// ParseConstants reads lines of the form "Name = value", as a TLC config has them, each constant
// exactly once.
func ParseConstants(lines []string) (Constants, error) {
	var c Constants
	left := c.setters()
	for _, line := range lines {
		name, value, _ := strings.Cut(strings.ReplaceAll(line, " ", ""), "=")
		set, ok := left[name]
		if !ok {
			return c, fmt.Errorf("constant %q: not one of StreamGraph.tla, or given twice", line)
		}
		if err := set(value); err != nil {
			return c, fmt.Errorf("constant %s: %w", name, err)
		}
		delete(left, name)
	}
	for name := range left {
		return c, fmt.Errorf("constant %s is not given", name)
	}
	return c, nil
}

func (c *Constants) setters() map[string]func(string) error {
	integer := func(to *int) func(string) error {
		return func(v string) (err error) { *to, err = strconv.Atoi(v); return err }
	}
	number := func(to *uint64) func(string) error {
		return func(v string) (err error) { *to, err = strconv.ParseUint(v, 10, 64); return err }
	}
	truth := func(to *bool) func(string) error {
		return func(v string) error {
			*to = v == "TRUE"
			if !*to && v != "FALSE" {
				return fmt.Errorf("%q, allowed are TRUE and FALSE", v)
			}
			return nil
		}
	}
	return map[string]func(string) error{
		"QueueCapacity": integer(&c.Limits.QueueCapacity), "MaxNacks": integer(&c.Limits.MaxNacks),
		"History": integer(&c.Limits.History), "MaxCheckpoints": integer(&c.Limits.MaxCheckpoints),
		"Ahead": number(&c.Limits.Ahead), "KeepPayloads": truth(&c.Limits.KeepPayloads),
		"Sparse": truth(&c.Limits.Sparse), "LastBatch": number(&c.LastBatch),
		"LastCheckpoint": number(&c.LastCheckpoint), "LastEpoch": number(&c.LastEpoch),
		"Bodies": c.setBodies,
	}
}

func (c *Constants) setBodies(set string) error {
	for member := range strings.SplitSeq(strings.Trim(set, "{}"), ",") {
		body, err := strconv.ParseUint(member, 10, 64)
		if err != nil {
			return err
		}
		c.Bodies = append(c.Bodies, body)
	}
	return nil
}

// lines is the inverse of ParseConstants.
func (c *Constants) lines() []string {
	truth := func(b bool) string { return strings.ToUpper(strconv.FormatBool(b)) }
	bodies := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(c.Bodies)), ", "), "[]")
	return []string{
		fmt.Sprint("QueueCapacity = ", c.Limits.QueueCapacity), fmt.Sprint("MaxNacks = ", c.Limits.MaxNacks),
		fmt.Sprint("History = ", c.Limits.History), fmt.Sprint("Ahead = ", c.Limits.Ahead),
		fmt.Sprint("MaxCheckpoints = ", c.Limits.MaxCheckpoints),
		"KeepPayloads = " + truth(c.Limits.KeepPayloads), "Sparse = " + truth(c.Limits.Sparse),
		fmt.Sprint("LastBatch = ", c.LastBatch), "Bodies = {" + bodies + "}",
		fmt.Sprint("LastCheckpoint = ", c.LastCheckpoint), fmt.Sprint("LastEpoch = ", c.LastEpoch),
	}
}

// calls lists every call that Next of StreamGraph.tla considers, whether or not the state allows it.
func (c *Constants) calls() []Call {
	var list []Call
	each := func(action string, from, to uint64) {
		for arg := from; arg <= to; arg++ {
			list = append(list, Call{Action: action, Arg: arg})
		}
	}
	each("Anchor", 1, c.LastBatch)
	each("Rebase", 1, c.LastBatch+1)
	for id := uint64(1); id <= c.LastBatch; id++ {
		for _, body := range c.Bodies {
			list = append(list, Call{"Receive", id, body})
		}
	}
	each("Skip", 1, c.LastBatch)
	each("Emit", 1, uint64(c.Limits.QueueCapacity))
	each("Settle", 0, uint64(c.Limits.QueueCapacity))
	each("Resume", 0, 0)
	each("Rollback", 0, c.LastCheckpoint)
	each("Snapshot", 1, c.LastCheckpoint)
	each("Complete", 1, c.LastCheckpoint)
	each("Abort", 1, c.LastCheckpoint)
	each("Restore", 0, 0)
	each("Commit", 1, c.LastBatch+1)
	return list
}
