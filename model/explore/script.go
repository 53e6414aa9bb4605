package explore

import (
	"fmt"
	"slices"
	"strings"
)

// run takes the steps of a script, one a line, the first one Init, and checks what breadthFirst checks. The
// violation is nil when everything holds to the end. The error names the line with a step that is not
// one, or not possible, and what is.
//
// A line may begin with a number and a dot, and end with a remark behind #: the lines of a [Violation]
// are a script.
func run[W comparable](config string, by walker[W], script string) (*Violation, error) {
	var at W
	var taken []string
	for n, text := range strings.Split(script, "\n") {
		s, some, err := by.words().parse(text)
		if err == nil && some {
			var wrong *fault
			var done string
			at, done, wrong, err = follow(by, len(taken) == 0, at, s)
			taken = append(taken, done)
			if wrong != nil {
				return &Violation{config, wrong.property, wrong.why, taken}, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	return nil, nil
}

// follow is the world after a step, the line of the step, and what is wrong with it.
func follow[W comparable](by walker[W], first bool, from W, s step) (to W, done string, wrong *fault, err error) {
	is := func(next successor[W]) bool { return next.step == s }
	if first || s.action == initStep {
		inits := by.inits()
		i := slices.IndexFunc(inits, is)
		if !first || i < 0 {
			return from, "", nil, fmt.Errorf("%s: a script begins with %s, and has no other", by.words().text(s), texts(by, inits, " or "))
		}
		to = inits[i].world
		return to, lineOf(by, s, nil, &to), by.check(&to), nil
	}
	k := by.walking()
	k.from, k.out = &from, k.out[:0]
	wrong = take(by, k, int(s.action))
	i := slices.IndexFunc(k.out, is)
	if i < 0 {
		return from, "", nil, fmt.Errorf("%s is not possible, but: %s", by.words().text(s), possible(by))
	}
	to = k.out[i].world
	if wrong != nil && i == len(k.out)-1 { // the step is at fault, and where it leads is no world
		return to, by.words().text(s), wrong, nil
	}
	return to, lineOf(by, s, &from, &to), by.check(&to), nil
}

// possible lists the steps that are possible in the world at hand.
func possible[W comparable](by walker[W]) string {
	k := by.walking()
	k.out = k.out[:0]
	for action := range by.words().actions {
		take(by, k, action)
	}
	return texts(by, k.out, ", ")
}

func texts[W comparable](by walker[W], list []successor[W], between string) string {
	var names []string
	for i := range list {
		names = append(names, by.words().text(list[i].step))
	}
	return strings.Join(names, between)
}
