package explore

import (
	"fmt"
	"slices"
	"strings"
)

// Run takes the steps of a script, one a line, the first one Init, and checks what [Explore] checks. The
// violation is nil when everything holds to the end. The error names the line with a step that is not
// one, or not possible, and what is.
//
// A line may begin with a number and a dot, and end with a remark behind #: the lines of a [Violation]
// are a script.
func Run(cfg *Config, m Maker, script string) (*Violation, error) {
	e := newSearch(cfg, m).expander()
	var at world
	var taken []string
	for n, line := range strings.Split(script, "\n") {
		s, some, err := parseStep(line)
		if err == nil && some {
			before := at
			var wrong *fault
			if at, wrong, err = e.follow(len(taken) == 0, at, s); err == nil {
				taken = append(taken, s.line(&before, &at))
			}
			if wrong != nil {
				return &Violation{cfg.Name, wrong.property, wrong.why, taken}, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	return nil, nil
}

// follow is the world after a step, and what is wrong with it.
func (e *expander) follow(first bool, from world, s step) (world, *fault, error) {
	if first || s.action == initStep {
		if !first || s.action != initStep || s.arg < 1 || s.arg > 2 {
			return from, nil, fmt.Errorf("%s: a script begins with Init 1 or Init 2, and has no other", s)
		}
		to := initial(s.arg)
		return to, e.check(&to), nil
	}
	e.from, e.out = &from, e.out[:0]
	wrong := e.take(int(s.action))
	i := slices.IndexFunc(e.out, func(next successor) bool { return next.step == s })
	if i < 0 {
		return from, nil, fmt.Errorf("%s is not possible, but: %s", s, e.possible())
	}
	to := e.out[i].world
	if wrong != nil && i == len(e.out)-1 {
		return to, wrong, nil
	}
	return to, e.check(&to), nil
}

// possible lists the steps that are possible in the world at hand.
func (e *expander) possible() string {
	e.out = e.out[:0]
	var names []string
	for action := range actions {
		e.take(action)
	}
	for i := range e.out {
		names = append(names, e.out[i].step.String())
	}
	return strings.Join(names, ", ")
}
