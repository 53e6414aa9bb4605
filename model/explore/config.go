package explore

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/model"
	"github.com/tidemark/tidemark/statemachine"
)

// Config is one System config of docs/spec.
type Config struct {
	Header
	Constants Constants
}

// Header is what a config says but for its constants.
type Header struct {
	Name     string // of the file, without .cfg
	Shows    string // its first line
	MustFail bool   // it says EXPECTED TO FAIL
	// Invariants and Properties are those that the file names.
	Invariants, Properties []string
}

// Constants are the constants of System.tla.
type Constants struct {
	Limits statemachine.Limits
	// LastBatch is at most 15, and its product with MaxResets+1 at most 8; Depth is at most 4.
	LastBatch, Window, Depth                      uint8
	MaxBreaks, MaxCrashes, MaxResets, MaxRefusals uint8
	MaxAborts, MaxLost, MaxDenied, MaxRollbacks   uint8
	InOrder, GoBackN, AnyOrder, Transactional     bool
}

// ReadConfig reads a System config. The error names the file and what is wrong in it.
func ReadConfig(path string) (*Config, error) {
	var cfg Config
	lines, err := cfg.read(path)
	if err == nil {
		err = in(path, cfg.check("System.tla", func(name string) bool { return invariants[name] != nil }))
	}
	if err == nil {
		err = in(path, cfg.Constants.parse(lines))
	}
	if err != nil {
		return nil, err
	}
	return &cfg, nil
}

// in says that an error is in a file.
func in(path string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// read reads a config, and returns its constants, one a line.
func (h *Header) read(path string) (constants []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h.Name = strings.TrimSuffix(filepath.Base(path), ".cfg")
	first, rest, _ := strings.Cut(string(text), "\n")
	h.Shows, h.MustFail = strings.CutPrefix(strings.TrimPrefix(first, `\* `), "EXPECTED TO FAIL: ")
	for line := range strings.Lines(rest) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "SPECIFICATION", "CONSTANTS", "CHECK_DEADLOCK":
		case "INVARIANT", "INVARIANTS":
			h.Invariants = append(h.Invariants, words[1:]...)
		case "PROPERTY", "PROPERTIES":
			h.Properties = append(h.Properties, words[1:]...)
		default:
			constants = append(constants, strings.TrimSpace(line))
		}
	}
	return constants, nil
}

// check says which invariant the specification does not have.
func (h *Header) check(spec string, has func(name string) bool) error {
	for _, name := range h.Invariants {
		if !has(name) {
			return fmt.Errorf("invariant %s: not one of %s", name, spec)
		}
	}
	return nil
}

// parse reads the constants of System.tla.
func (c *Constants) parse(lines []string) error {
	setters := map[string]func(string) error{
		"Window": number(&c.Window), "Depth": number(&c.Depth),
		"MaxBreaks": number(&c.MaxBreaks), "MaxCrashes": number(&c.MaxCrashes), "MaxResets": number(&c.MaxResets),
		"MaxRefusals": number(&c.MaxRefusals), "MaxAborts": number(&c.MaxAborts), "MaxLost": number(&c.MaxLost),
		"MaxDenied": number(&c.MaxDenied), "MaxRollbacks": number(&c.MaxRollbacks),
		"InOrder": truth(&c.InOrder), "GoBackN": truth(&c.GoBackN), "AnyOrder": truth(&c.AnyOrder),
		"Transactional": truth(&c.Transactional),
	}
	var err error
	if c.Limits, c.LastBatch, err = parseConstants(lines, setters); err != nil {
		return err
	}
	return c.check()
}

// parseConstants reads lines "Name = value", each constant exactly once. Those that have no setter are of Stream.tla,
// and LastBatch; they are read as in a graph's config, whose own bounds a world does not have.
func parseConstants(lines []string, left map[string]func(string) error) (statemachine.Limits, uint8, error) {
	limits := []string{"Bodies = {0}", "LastCheckpoint = 1", "LastEpoch = 0"}
	for _, line := range lines {
		name, value, _ := strings.Cut(strings.ReplaceAll(line, " ", ""), "=")
		set, own := left[name]
		if !own {
			limits = append(limits, line)
			continue
		}
		if err := set(value); err != nil {
			return statemachine.Limits{}, 0, fmt.Errorf("constant %s: %w", name, err)
		}
		delete(left, name)
	}
	for name := range left {
		return statemachine.Limits{}, 0, fmt.Errorf("constant %s is not given", name)
	}
	stream, err := model.ParseConstants(limits)
	return stream.Limits, uint8(min(stream.LastBatch, 255)), err
}

func number(to *uint8) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseUint(v, 10, 8)
		*to = uint8(n)
		return err
	}
}

func truth(to *bool) func(string) error {
	return func(v string) error {
		*to = v == "TRUE"
		if !slices.Contains([]string{"TRUE", "FALSE"}, v) {
			return fmt.Errorf("%q, allowed are TRUE and FALSE", v)
		}
		return nil
	}
}

// bound is the most that a world has room for.
type bound struct {
	name        string
	value, most int
}

func checkBounds(bounds ...bound) error {
	for _, b := range bounds {
		if b.value > b.most {
			return fmt.Errorf("%s is %d, the explorer allows at most %d", b.name, b.value, b.most)
		}
	}
	return nil
}

// check says which constant is more than a world has room for.
func (c *Constants) check() error {
	contents := int(c.LastBatch) * (int(c.MaxResets) + 1)
	err := checkBounds(
		bound{"LastBatch", int(c.LastBatch), maxNumber}, bound{"Depth", int(c.Depth), maxDepth},
		bound{"LastBatch * (MaxResets + 1)", contents, maxContents},
	)
	if err == nil && !c.InOrder {
		err = fmt.Errorf("InOrder is FALSE, a Session knows only TRUE")
	}
	return err
}
