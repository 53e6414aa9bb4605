package explore

import (
	"fmt"
	"strconv"
	"strings"
)

// step is an action of a specification, by its row in Next, and its argument. As text it is a line of a script.
type step struct{ action, arg uint8 }

// initStep stands for Init and what it chooses, first.
const initStep = 255

// action is a row of Next: what it is called, and how E takes it.
type action[E any] struct {
	word
	take func(E)
}

// word is an action as text.
type word struct {
	name string
	arg  bool  // a number follows
	only uint8 // which must be this one; 0: any
}

// words are those of the steps of a specification, in the order of Next.
type words struct {
	spec    string // the file
	init    word
	actions []word
}

func wordsOf[E any](spec string, init word, rows []action[E]) *words {
	v := &words{spec: spec, init: init}
	for i := range rows {
		v.actions = append(v.actions, rows[i].word)
	}
	return v
}

func (v *words) word(s step) word {
	if s.action == initStep {
		return v.init
	}
	return v.actions[s.action]
}

// text is the step as a line of a script.
func (v *words) text(s step) string {
	w := v.word(s)
	switch {
	case w.arg:
		return fmt.Sprint(w.name, " ", s.arg)
	case s.arg > 0:
		return w.name + " lost"
	default:
		return w.name
	}
}

// parse is the inverse of text. It overlooks a number with a dot in front, and what stands behind #; of an
// empty line it says false.
func (v *words) parse(line string) (s step, some bool, err error) {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	if len(words) > 0 && strings.HasSuffix(words[0], ".") {
		words = words[1:]
	}
	if len(words) == 0 {
		return s, false, nil
	}
	if len(words) == 2 {
		n, err := strconv.ParseUint(strings.Replace(words[1], "lost", "1", 1), 10, 8)
		if err != nil {
			return s, false, fmt.Errorf("%q: want a number up to 255, or lost", words[1])
		}
		s.arg = uint8(n)
	}
	s.action = initStep
	for i, w := range v.actions {
		if w.name == words[0] && (w.only == 0 || w.only == s.arg) {
			s.action = uint8(i)
		}
	}
	if text := strings.Join(words, " "); v.text(s) != text {
		return s, false, fmt.Errorf("%q: not a step; the names are those of %s", text, v.spec)
	}
	return s, true, nil
}
