package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/statemachine"
)

// SeatConfig is one Seat config of docs/spec.
type SeatConfig struct {
	Header
	Constants SeatConstants
}

// SeatConstants are the constants of Seat.tla. The shipped Seat knows CloseOlder and CheckNext as TRUE only: where they
// are FALSE, [ExploreSeat] needs another one.
type SeatConstants struct {
	Limits statemachine.Limits
	// LastBatch is at most 14, and its product with MaxResets+MaxForgets+1 at most 8; Depth is at most 4.
	LastBatch, Window, Depth                     uint8
	MaxBreaks, MaxCrashes, MaxResets, MaxForgets uint8
	MaxDenied                                    uint8
	Undecodable                                  []uint8 // rising
	HelloOutlives, WaitReady                     bool
	CloseOlder, CheckNext, SkipNacked            bool
}

// ReadSeatConfig reads a Seat config. The error names the file and what is wrong in it.
func ReadSeatConfig(path string) (*SeatConfig, error) {
	var cfg SeatConfig
	lines, err := cfg.read(path)
	if err == nil {
		err = in(path, cfg.check("Seat.tla", func(name string) bool { return seatInvariants[name] != nil }))
	}
	if err == nil {
		err = in(path, cfg.Constants.parse(lines))
	}
	if err != nil {
		return nil, err
	}
	return &cfg, nil
}

func (c *SeatConstants) parse(lines []string) error {
	setters := map[string]func(string) error{
		"Window": number(&c.Window), "Depth": number(&c.Depth),
		"MaxBreaks": number(&c.MaxBreaks), "MaxCrashes": number(&c.MaxCrashes), "MaxResets": number(&c.MaxResets),
		"MaxForgets": number(&c.MaxForgets), "MaxDenied": number(&c.MaxDenied), "Undecodable": numbers(&c.Undecodable),
		"HelloOutlives": truth(&c.HelloOutlives), "WaitReady": truth(&c.WaitReady), "CloseOlder": truth(&c.CloseOlder),
		"CheckNext": truth(&c.CheckNext), "SkipNacked": truth(&c.SkipNacked),
	}
	var err error
	if c.Limits, c.LastBatch, err = parseConstants(lines, setters); err != nil {
		return err
	}
	return checkBounds(
		bound{"LastBatch", int(c.LastBatch), maxNumber - 1}, bound{"Depth", int(c.Depth), maxDepth}, // a HELLO says the next one
		bound{"LastBatch * (MaxResets + MaxForgets + 1)", int(c.LastBatch) * c.lives(), maxContents},
	)
}

// numbers reads a set.
func numbers(to *[]uint8) func(string) error {
	return func(v string) error {
		members, begins := strings.CutPrefix(v, "{")
		members, ends := strings.CutSuffix(members, "}")
		if !begins || !ends {
			return fmt.Errorf("%q, allowed is a set of numbers", v)
		}
		for member := range strings.SplitSeq(members, ",") {
			if members == "" {
				break
			}
			n, err := strconv.ParseUint(member, 10, 8)
			if err != nil {
				return err
			}
			*to = append(*to, uint8(n))
		}
		slices.Sort(*to)
		return nil
	}
}

// lives is how many lives a collector may have.
func (c *SeatConstants) lives() int { return int(c.MaxResets) + int(c.MaxForgets) + 1 }

// Checked are the invariants that the explorer checks of a config: those that it names, and Dirty; if it must hold also
// Reported and the others that its constants allow, LostIsGone on each step among them.
func (cfg *SeatConfig) Checked() []string {
	list := slices.Clone(cfg.Invariants)
	if !cfg.MustFail {
		list = []string{"StreamSound", "SeatSound", "NoLoss", "ExactlyOnce", "NoFalseAlarm"}
		if int(cfg.Constants.Window) <= cfg.Constants.Limits.QueueCapacity {
			list = append(list, "NoRefusal")
		}
		list = append(list, "LostIsGone", "Reported")
	}
	return append(list, "Dirty")
}

// LeftToTLC are the properties that the config names and the explorer does not check: liveness.
func (cfg *SeatConfig) LeftToTLC() []string {
	return slices.DeleteFunc(slices.Clone(cfg.Properties), func(name string) bool { return name == "LostIsGone" })
}
