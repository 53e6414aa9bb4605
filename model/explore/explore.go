package explore

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// chunk is how many worlds are expanded before it is looked up where they lead to.
const chunk = 1 << 13

// search is one exploration, or one run of a script.
type search struct {
	*Constants
	config  *Config
	maker   Maker
	checked []func(*expander, *world) *fault

	streams                   pool[*streamFacts]
	images                    pool[*imageFacts]
	sessions                  pool[*sessionFacts]
	firstStreams, firstImages firsts
}

// Result is what an exploration found.
type Result struct {
	// Generated and Distinct count as TLC does: the worlds that steps lead to (two steps where an "or"
	// of the specification is true for two reasons), and the different ones. After a violation they
	// count what was seen until then.
	Generated, Distinct int
	Violation           *Violation // nil when everything holds
}

// Violation is a property that does not hold, and the shortest way there.
type Violation struct {
	Config, Property, Why string
	Steps                 []string // the lines of a script; what was answered stands behind a #
}

// String is a line that tells what is wrong, and the script, numbered; [Run] takes it from Init on.
func (v *Violation) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s violates %s: %s\n", v.Config, v.Property, v.Why)
	for i, s := range v.Steps {
		fmt.Fprintf(&text, "%3d. %s\n", i+1, s)
	}
	return text.String()
}

func newSearch(cfg *Config, m Maker) *search {
	x := &search{Constants: &cfg.Constants, config: cfg, maker: m, firstStreams: firsts{}, firstImages: firsts{}}
	for _, name := range cfg.Checked() {
		if holds := invariants[name]; holds != nil {
			x.checked = append(x.checked, func(e *expander, w *world) *fault {
				if err := holds(e, w); err != nil {
					return &fault{name, err.Error()}
				}
				return nil
			})
		}
	}
	return x
}

// expander makes one; the first puts Fresh, its image and a new session in the first places.
func (x *search) expander() *expander {
	e := &expander{
		search: x, stream: x.maker.New(&x.Limits), session: x.maker.Connect(),
		streams: view[*streamFacts]{pool: &x.streams}, images: view[*imageFacts]{pool: &x.images},
		sessions: view[*sessionFacts]{pool: &x.sessions},
	}
	var w world
	e.keepStream(&w)
	e.keepSession(&w)
	return e
}

// initial is Init with a choice of first, 1 or 2.
func initial(first uint8) world { return world{first: first, produced: first - 1, up: true} }

// Explore takes every step that System.tla knows, from every world that steps lead to, breadth first, on
// all processors. Result and counterexample are the same each time.
func Explore(cfg *Config, m Maker) *Result {
	x := newSearch(cfg, m)
	workers := make([]*expander, runtime.GOMAXPROCS(0))
	for i := range workers {
		workers[i] = x.expander()
	}
	found := &finder{visited: newVisited(), e: workers[0]}
	for first := uint8(1); first <= 2; first++ {
		s := successor{world: initial(first), step: step{initStep, first}, ways: 1}
		s.hash = found.hash(&s.world)
		found.take([]successor{s}, nil)
	}
	for done := 0; done < len(found.nodes) && found.Violation == nil; {
		todo := found.nodes[done:min(len(found.nodes), done+chunk)]
		var group sync.WaitGroup
		for i, e := range workers {
			from, to := len(todo)*i/len(workers), len(todo)*(i+1)/len(workers)
			group.Go(func() { e.expandAll(todo[from:to], done+from, found.visited) })
		}
		group.Wait()
		done += len(todo)
		for _, e := range workers {
			found.take(e.out, e.fault)
		}
	}
	found.Distinct = len(found.nodes)
	return &found.Result
}

// finder collects what the workers found.
type finder struct {
	*visited
	Result
	e *expander
}

// take keeps what is new and checks it. A fault is one of the last step.
func (f *finder) take(list []successor, last *fault) {
	for i := range list {
		if f.Violation != nil {
			return
		}
		s := &list[i]
		f.Generated += int(s.ways)
		if last != nil && i == len(list)-1 {
			f.violated(last, append(f.path(s.parent), s.step.String()))
			return
		}
		if !f.add(s) {
			continue
		}
		if wrong := f.e.check(&s.world); wrong != nil {
			f.violated(wrong, f.path(uint32(len(f.nodes)-1)))
		}
	}
}

func (f *finder) violated(wrong *fault, steps []string) {
	f.Violation = &Violation{f.e.config.Name, wrong.property, wrong.why, steps}
}

// path is the steps from Init to a node.
func (f *finder) path(at uint32) []string {
	n := &f.nodes[at]
	if n.step.action == initStep {
		return []string{n.step.line(nil, &n.world)}
	}
	return append(f.path(n.parent), n.step.line(&f.nodes[n.parent].world, &n.world))
}

// expandAll expands a stretch of nodes, of which the first is the at-th, until one has a fault.
func (e *expander) expandAll(nodes []node, at int, v *visited) {
	e.out, e.fault = e.out[:0], nil
	for i := range nodes {
		e.at, e.from = uint32(at+i), &nodes[i].world
		for action := range actions {
			begin := len(e.out)
			e.fault = e.take(action)
			for j := begin; j < len(e.out); j++ {
				e.out[j].hash = v.hash(&e.out[j].world)
			}
			if e.fault != nil {
				return
			}
		}
	}
}

// take takes an action in all ways that are possible. On a fault the last successor is not a world but
// the step at fault.
func (e *expander) take(action int) (wrong *fault) {
	begin := len(e.out)
	defer func() {
		if r := recover(); r != nil {
			wrong = &fault{"NoPanic", fmt.Sprint(r)}
		}
	}()
	e.action = uint8(action)
	actions[action].take(e)
	for i := begin; i < len(e.out); i++ {
		if wrong := rises(e, e.from, &e.out[i].world); wrong != nil {
			e.out = e.out[:i+1]
			return wrong
		}
	}
	return nil
}
