package explore

import "fmt"

// walker takes the steps of a specification from the worlds W; each goroutine has one. The engine knows of a
// specification only this.
type walker[W comparable] interface {
	walking() *walk[W]
	words() *words
	// inits are the worlds to begin with, and the steps that stand for Init and what it chooses.
	inits() []successor[W]
	// act takes an action from the world at hand in all ways that are possible.
	act(action int)
	// checkStep is what does not hold of a step, and check the first invariant that does not hold of a world.
	checkStep(from, to *W) *fault
	check(*W) *fault
	// remark is what the text of a step does not tell: what was answered, or heard; "" is nothing.
	remark(s step, from, to *W) string
}

// walk is where a walker stands, and where steps lead from there.
type walk[W comparable] struct {
	at     uint32 // the place of the world at hand
	from   *W     // that world
	action uint8
	out    []successor[W]
}

func (k *walk[W]) walking() *walk[W] { return k }

// successor is a world, and the step that leads to it from the parent.
type successor[W comparable] struct {
	world  W
	parent uint32
	step   step
	ways   uint8 // how often TLC counts the step
	hash   uint32
}

// next begins the world that a step leads to, as a copy of that at hand. The pointer is valid until the
// next call.
func (k *walk[W]) next(arg uint8) *W {
	k.out = append(k.out, successor[W]{world: *k.from, parent: k.at, step: step{k.action, arg}, ways: 1})
	return &k.out[len(k.out)-1].world
}

// halves says that the guard of the last step has an "or", and which halves of it are true: TLC counts
// the step once for each.
func (k *walk[W]) halves(left, right bool) {
	if left && right {
		k.out[len(k.out)-1].ways = 2
	}
}

// take takes an action in all ways that are possible, on the walk of the walker. On a fault the last successor is not a world but
// the step at fault.
func take[W comparable](by walker[W], k *walk[W], action int) (wrong *fault) {
	begin := len(k.out)
	defer func() {
		if r := recover(); r != nil {
			wrong = &fault{"NoPanic", fmt.Sprint(r)}
		}
	}()
	k.action = uint8(action)
	by.act(action)
	for i := begin; i < len(k.out); i++ {
		if wrong := by.checkStep(k.from, &k.out[i].world); wrong != nil {
			k.out = k.out[:i+1]
			return wrong
		}
	}
	return nil
}

// lineOf is a step with its remark.
func lineOf[W comparable](by walker[W], s step, from, to *W) string {
	text := by.words().text(s)
	if remark := by.remark(s, from, to); remark != "" {
		return fmt.Sprintf("%-14s # %s", text, remark)
	}
	return text
}
