package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
)

// arguments is one line of a script: a name, numbers (3, or 3-5 for three of them), and options.
type arguments struct {
	name    string
	numbers []uint64
	options map[string]string
}

func parseArguments(line string) (arguments, error) {
	name, parts, err := datadriven.ParseLine(line)
	a := arguments{name: name, options: map[string]string{}}
	if err != nil {
		return a, err
	}
	for _, p := range parts {
		switch {
		case len(p.Vals) == 1:
			a.options[p.Key] = p.Vals[0]
		case p.Key[0] >= '0' && p.Key[0] <= '9':
			if a.numbers, err = appendNumbers(a.numbers, p.Key); err != nil {
				return a, err
			}
		case len(p.Vals) == 0:
			a.options[p.Key] = "true"
		default:
			return a, fmt.Errorf("option %q has %d values", p.Key, len(p.Vals))
		}
	}
	return a, nil
}

func appendNumbers(list []uint64, text string) ([]uint64, error) {
	from, to, isRange := strings.Cut(text, "-")
	first, err := strconv.ParseUint(from, 10, 64)
	last := first
	if err == nil && isRange {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	if err != nil || last < first || last-first > 100_000 {
		return nil, fmt.Errorf("number %q, allowed are N and FIRST-LAST", text)
	}
	for id := first; ; id++ {
		list = append(list, id)
		if id == last {
			return list, nil
		}
	}
}

// parseStep is a line and the command it names.
func parseStep(line string) (arguments, scriptCommand, error) {
	a, err := parseArguments(line)
	if err != nil {
		return a, scriptCommand{}, err
	}
	cmd, known := scriptCommands[a.name]
	if !known {
		return a, cmd, fmt.Errorf("unknown command %q", a.name)
	}
	return a, cmd, cmd.check(a)
}

// first is the first number of the line, or what it stands for when there is none.
func (a arguments) first(otherwise uint64) uint64 {
	if len(a.numbers) > 0 {
		return a.numbers[0]
	}
	return otherwise
}

func (c scriptCommand) check(a arguments) error {
	if n := len(a.numbers); n < c.least || n > c.most {
		return fmt.Errorf("%s has %d numbers, allowed are %d to %d", a.name, n, c.least, c.most)
	}
	for o := range a.options {
		if o != "panics" && !slices.Contains(c.options, o) {
			return fmt.Errorf("%s has option %q, allowed are %v", a.name, o, c.options)
		}
	}
	return nil
}

// scriptBlocks is the commands of a script, a list of lines for each block: what stands between its comments and the
// ---- above its output.
func scriptBlocks(text string) (blocks [][]string) {
	var block []string
	output := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case output:
			output = line != ""
		case line == "----":
			blocks, block, output = append(blocks, block), nil, true
		case line != "" && !strings.HasPrefix(line, "#"):
			block = append(block, line)
		}
	}
	return blocks
}
