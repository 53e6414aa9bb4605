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
	Name      string // of the file, without .cfg
	Shows     string // its first line
	MustFail  bool   // it says EXPECTED TO FAIL
	Constants Constants
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
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg := &Config{Name: strings.TrimSuffix(filepath.Base(path), ".cfg")}
	if err := cfg.parse(string(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

func (cfg *Config) parse(text string) error {
	var constants []string
	first, text, _ := strings.Cut(text, "\n")
	cfg.Shows, cfg.MustFail = strings.CutPrefix(strings.TrimPrefix(first, `\* `), "EXPECTED TO FAIL: ")
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "SPECIFICATION", "CONSTANTS", "CHECK_DEADLOCK":
		case "INVARIANT", "INVARIANTS":
			cfg.Invariants = append(cfg.Invariants, words[1:]...)
		case "PROPERTY", "PROPERTIES":
			cfg.Properties = append(cfg.Properties, words[1:]...)
		default:
			constants = append(constants, strings.TrimSpace(line))
		}
	}
	for _, name := range cfg.Invariants {
		if invariants[name] == nil {
			return fmt.Errorf("invariant %s: not one of System.tla", name)
		}
	}
	return cfg.Constants.parse(constants)
}

// parse reads lines "Name = value", each constant exactly once. Those of Stream.tla are read as in a
// graph's config, whose own bounds System.tla does not have.
func (c *Constants) parse(lines []string) error {
	limits := []string{"Bodies = {0}", "LastCheckpoint = 1", "LastEpoch = 0"}
	left := c.setters()
	for _, line := range lines {
		name, value, _ := strings.Cut(strings.ReplaceAll(line, " ", ""), "=")
		set, own := left[name]
		if !own {
			limits = append(limits, line)
			continue
		}
		if err := set(value); err != nil {
			return fmt.Errorf("constant %s: %w", name, err)
		}
		delete(left, name)
	}
	for name := range left {
		return fmt.Errorf("constant %s is not given", name)
	}
	stream, err := model.ParseConstants(limits)
	if err != nil {
		return err
	}
	c.Limits, c.LastBatch = stream.Limits, uint8(min(stream.LastBatch, 255))
	return c.check()
}

func (c *Constants) setters() map[string]func(string) error {
	number := func(to *uint8) func(string) error {
		return func(v string) error {
			n, err := strconv.ParseUint(v, 10, 8)
			*to = uint8(n)
			return err
		}
	}
	truth := func(to *bool) func(string) error {
		return func(v string) error {
			*to = v == "TRUE"
			if !slices.Contains([]string{"TRUE", "FALSE"}, v) {
				return fmt.Errorf("%q, allowed are TRUE and FALSE", v)
			}
			return nil
		}
	}
	return map[string]func(string) error{
		"Window": number(&c.Window), "Depth": number(&c.Depth),
		"MaxBreaks": number(&c.MaxBreaks), "MaxCrashes": number(&c.MaxCrashes), "MaxResets": number(&c.MaxResets),
		"MaxRefusals": number(&c.MaxRefusals), "MaxAborts": number(&c.MaxAborts), "MaxLost": number(&c.MaxLost),
		"MaxDenied": number(&c.MaxDenied), "MaxRollbacks": number(&c.MaxRollbacks),
		"InOrder": truth(&c.InOrder), "GoBackN": truth(&c.GoBackN), "AnyOrder": truth(&c.AnyOrder),
		"Transactional": truth(&c.Transactional),
	}
}

// check says which constant is more than a world has room for.
func (c *Constants) check() error {
	contents := int(c.LastBatch) * (int(c.MaxResets) + 1)
	for _, bound := range []struct {
		name        string
		value, most int
	}{
		{"LastBatch", int(c.LastBatch), maxNumber}, {"Depth", int(c.Depth), maxDepth},
		{"LastBatch * (MaxResets + 1)", contents, maxContents},
	} {
		if bound.value > bound.most {
			return fmt.Errorf("%s is %d, the explorer allows at most %d", bound.name, bound.value, bound.most)
		}
	}
	if !c.InOrder {
		return fmt.Errorf("InOrder is FALSE, a Session knows only TRUE")
	}
	return nil
}
