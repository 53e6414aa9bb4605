package model

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Script runs the commands of a story such as those in statemachine/testdata: the actions of Stream.tla and
// System.tla, one a line, and what a host does around them; script_commands.go has them all. Every action is taken on
// the machine and on [Sequential], which must agree after each, and what was promised is checked.
type Script struct{ host }

// NewScript is a script of the shipped machine.
func NewScript() *Script { return &Script{host{twin: twin{maker: shipped()}}} }

// Block runs the commands of a block and joins what they print, a line each: what was answered, and which fields
// changed. The error names the line.
func (s *Script) Block(lines []string) (string, error) {
	name, _, _ := strings.Cut(lines[0], " ")
	switch {
	case name == "apply" && s.machine != nil:
		return s.apply(lines[1:])
	case name == "repeat" && s.machine != nil:
		return s.repeat(lines)
	}
	var output []string
	for _, line := range lines {
		out, err := s.line(line)
		if err != nil {
			return "", fmt.Errorf("%q: %w", line, err)
		}
		output = append(output, out)
	}
	return strings.Join(output, "\n"), nil
}

// line runs one command and prints its answer and the fields it changed.
func (h *host) line(line string) (string, error) {
	h.before = h.fields()
	answer, err := h.step(line)
	if err == nil {
		err = h.verify()
	}
	if err != nil {
		return "", err
	}
	changed := changes(h.before, h.fields())
	if answer == "" || changed == "" {
		return cmp.Or(answer+changed, "nothing changed"), nil
	}
	return answer + ": " + changed, nil
}

// machinePanic is a panic of the machine in an action that is possible.
type machinePanic struct{ value any }

func (e machinePanic) Error() string { return fmt.Sprint("the machine panics: ", e.value) }

// verify checks the promises first: what breaks one is worse than a difference.
func (h *host) verify() error {
	if err := h.keepsPromises(); err != nil || h.depth == promised {
		return err
	}
	return h.agree(h.lost)
}

// step takes a line apart and runs its command.
func (h *host) step(line string) (string, error) {
	a, cmd, err := parseStep(line)
	if err != nil {
		return "", err
	}
	return h.run(a, cmd)
}

// run runs a command. With the marker panics it must be impossible, and that is the answer.
func (h *host) run(a arguments, cmd scriptCommand) (answer string, err error) {
	if h.machine == nil && a.name != "new" {
		return "", errors.New("no stream: a script begins with new")
	}
	defer func() {
		if r := recover(); r != nil {
			err = machinePanic{r}
		}
	}()
	answer, err = cmd.run(h, a)
	_, expected := a.options["panics"]
	var not impossible
	switch {
	case !expected:
		return answer, err
	case err == nil:
		return "", errors.New("it is possible, and was said not to be")
	case errors.As(err, &not) && err == error(not):
		return "panics: " + not.Error(), nil
	default:
		return "", err
	}
}

// repeat runs the lines after the first again and again and prints what changed in all.
func (h *host) repeat(lines []string) (string, error) {
	a, err := parseArguments(lines[0])
	if err != nil || len(a.numbers) != 1 || len(a.options) > 0 || len(lines) == 1 {
		return "", fmt.Errorf("%q: allowed is repeat TIMES and the commands below it", lines[0])
	}
	before := h.fields()
	calls, commands := make([]arguments, len(lines)), make([]scriptCommand, len(lines))
	for i := 1; i < len(lines); i++ {
		if calls[i], commands[i], err = parseStep(lines[i]); err != nil {
			return "", fmt.Errorf("%q: %w", lines[i], err)
		}
	}
	for range a.numbers[0] {
		for i := 1; i < len(lines); i++ {
			if _, err := h.run(calls[i], commands[i]); err != nil {
				return "", fmt.Errorf("%q: %w", lines[i], err)
			}
		}
	}
	return fmt.Sprintf("%d times: %s", a.numbers[0], cmp.Or(changes(before, h.fields()), "nothing changed")), h.verify()
}
