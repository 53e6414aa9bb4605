package explore

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// chunk is how many worlds are expanded before it is looked up where they lead to.
const chunk = 1 << 13

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

// String is a line that tells what is wrong, and the script, numbered; [Run] and [RunSeat] take it from Init on.
func (v *Violation) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s violates %s: %s\n", v.Config, v.Property, v.Why)
	for i, s := range v.Steps {
		fmt.Fprintf(&text, "%3d. %s\n", i+1, s)
	}
	return text.String()
}

// fault is a property that does not hold, and why.
type fault struct{ property, why string }

// breadthFirst takes every step that a specification knows, from every world that steps lead to, breadth first, on all
// processors. Result and counterexample are the same each time. The config names the violation.
func breadthFirst[W comparable](config string, walker func() walker[W]) *Result {
	found := &finder[W]{visited: newVisited[W](), config: config, by: walker()}
	workers := []worker[W]{{by: found.by}}
	for len(workers) < runtime.GOMAXPROCS(0) {
		workers = append(workers, worker[W]{by: walker()})
	}
	for _, s := range found.by.inits() {
		s.hash = found.hash(&s.world)
		found.take([]successor[W]{s}, nil)
	}
	for done := 0; done < len(found.nodes) && found.Violation == nil; {
		todo := found.nodes[done:min(len(found.nodes), done+chunk)]
		var group sync.WaitGroup
		for i := range workers {
			from, to := len(todo)*i/len(workers), len(todo)*(i+1)/len(workers)
			group.Go(func() { workers[i].expandAll(todo[from:to], done+from, found.visited) })
		}
		group.Wait()
		done += len(todo)
		for i := range workers {
			found.take(workers[i].by.walking().out, workers[i].fault)
		}
	}
	found.Distinct = len(found.nodes)
	return &found.Result
}

// finder collects what the workers found.
type finder[W comparable] struct {
	*visited[W]
	Result
	config string
	by     walker[W]
}

// take keeps what is new and checks it. A fault is one of the last step.
func (f *finder[W]) take(list []successor[W], last *fault) {
	for i := range list {
		if f.Violation != nil {
			return
		}
		s := &list[i]
		f.Generated += int(s.ways)
		if last != nil && i == len(list)-1 {
			f.violated(last, append(f.path(s.parent), f.by.words().text(s.step)))
			return
		}
		if !f.add(s) {
			continue
		}
		if wrong := f.by.check(&s.world); wrong != nil {
			f.violated(wrong, f.path(uint32(len(f.nodes)-1)))
		}
	}
}

func (f *finder[W]) violated(wrong *fault, steps []string) {
	f.Violation = &Violation{f.config, wrong.property, wrong.why, steps}
}

// path is the steps from Init to a node.
func (f *finder[W]) path(at uint32) []string {
	n := &f.nodes[at]
	if n.step.action == initStep {
		return []string{lineOf(f.by, n.step, nil, &n.world)}
	}
	return append(f.path(n.parent), lineOf(f.by, n.step, &f.nodes[n.parent].world, &n.world))
}

// worker expands worlds, on one goroutine.
type worker[W comparable] struct {
	by    walker[W]
	fault *fault // of the last step that the walker took
}

// expandAll expands a stretch of nodes, of which the first is the at-th, until one has a fault.
func (r *worker[W]) expandAll(nodes []node[W], at int, v *visited[W]) {
	k, rows := r.by.walking(), len(r.by.words().actions)
	k.out, r.fault = k.out[:0], nil
	for i := range nodes {
		k.at, k.from = uint32(at+i), &nodes[i].world
		for action := range rows {
			begin := len(k.out)
			r.fault = take(r.by, k, action)
			for j := begin; j < len(k.out); j++ {
				k.out[j].hash = v.hash(&k.out[j].world)
			}
			if r.fault != nil {
				return
			}
		}
	}
}
