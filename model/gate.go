package model

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark/tidemark/statemachine"
	"github.com/tidemark/tidemark/statemachine/testdata"
)

// Gate runs the contract of Stream.tla against an implementation of it, as subtests:
//
//   - script/…: the stories in statemachine/testdata, one for each published bug and each rule;
//   - walk/…: random runs of each kind of stream, restarts and connections included, compared with [Sequential] after
//     each step, with the invariants of the specification;
//   - promise/…: random runs that look only at what a collector was told and what the sink got: NoLoss, ExactlyOnce,
//     Rises (an acknowledgement is never taken back) and AllAcknowledged (once faults stop).
//
// Restore makes the machine that begins a new life from a stored image; from the empty one it makes a stream nobody has
// sent to, in epoch 1. The image belongs to the machine from then on, and the limits stay as they are for its life.
//
// Flags of rapid apply: -rapid.checks sets how many runs each property gets, -rapid.seed repeats one.
func Gate[M Machine](t *testing.T, restore func(*statemachine.Limits, *statemachine.Image) (M, error)) {
	t.Helper()
	makerOf(restore).run(t, everyCheck)
}

// GateExact is Gate for a machine that shows all of its state and can be put into any. The state is compared after each
// step, and one more kind of subtest runs:
//
//   - graph/…: every step of the complete graphs that TLC made of StreamGraph.tla, replayed on the machine.
func GateExact[M Exact](t *testing.T, restore func(*statemachine.Limits, *statemachine.Image) (M, error),
	load func(*statemachine.Limits, *statemachine.State) (M, error)) {
	t.Helper()
	exactMaker(restore, load).run(t, everyCheck)
}

//go:embed testdata/*.graph.gz
var graphs embed.FS

// check is one subtest of the gate.
type check struct {
	name string
	run  func(test string) error // test is the full name, for the command that repeats a random failure
}

func everyCheck(string) bool { return true }

func (mk maker) run(t *testing.T, wanted func(name string) bool) {
	t.Helper()
	for _, c := range mk.checks() {
		if !wanted(c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(t.Name()); err != nil {
				t.Error(err)
			}
		})
	}
}

func (mk maker) checks() []check {
	list := mk.scripts()
	for _, v := range variants {
		list = append(list, check{"walk/" + v.name, func(test string) error {
			return worst(func(d depth) error { return property(test, mk.walk(v, d)) })
		}})
	}
	for _, p := range promises {
		list = append(list, check{"promise/" + p.name, func(test string) error { return property(test, mk.promise(p.check)) }})
	}
	list = append(list, check{"promise/AllAcknowledged", func(test string) error { return property(test, mk.allAcknowledged) }})
	if mk.load != nil {
		list = append(list, mk.graphs()...)
	}
	return list
}

// files is the names of what matches, which must be something.
func files(from fs.FS, pattern string) []string {
	names, err := fs.Glob(from, pattern)
	if err != nil || len(names) == 0 {
		panic(fmt.Sprintf("model: no %s: %v", pattern, err))
	}
	return names
}

// scripts leaves out those about the bytes of package statemachine.
func (mk maker) scripts() (list []check) {
	for _, file := range files(testdata.Scripts, "*.txt") {
		text, _ := fs.ReadFile(testdata.Scripts, file)
		if bytes.Contains(text, []byte("\napply\n")) {
			continue
		}
		list = append(list, check{"script/" + strings.TrimSuffix(file, ".txt"), func(string) error {
			return worst(func(d depth) error { return mk.script(string(text), d) })
		}})
	}
	return list
}

// worst runs a check to its full depth. When that finds something it looks for what matters more: a broken promise, or
// else another answer.
func worst(run func(depth) error) error {
	err := run(everything)
	if err == nil {
		return nil
	}
	for _, d := range []depth{promised, answers} {
		if worse := run(d); worse != nil {
			return worse
		}
	}
	return err
}

func (mk maker) script(text string, d depth) error {
	s, taken := Script{host{twin: twin{maker: mk, depth: d}}}, []string(nil)
	for _, block := range scriptBlocks(text) {
		for len(block) > 0 {
			n := 1
			if strings.HasPrefix(block[0], "repeat ") {
				n = len(block)
			}
			taken = append(taken, block[:n]...)
			switch _, err := s.Block(block[:n]); {
			case d == promised && errors.As(err, new(impossible)):
				return nil // too far from the model to go on
			case err != nil:
				return after(err, taken)
			}
			block = block[n:]
		}
	}
	if len(taken) == 0 {
		return errors.New("no command was run")
	}
	return nil
}

// after adds the script that leads to an error.
func after(err error, lines []string) error {
	return fmt.Errorf("%w\nafter:\n    %s", err, strings.Join(lines, "\n    "))
}

func (mk maker) graphs() (list []check) {
	for _, file := range files(graphs, "testdata/*.graph.gz") {
		name, _, _ := strings.Cut(path.Base(file), ".")
		list = append(list, check{"graph/" + name, func(string) error {
			packed, _ := fs.ReadFile(graphs, file)
			g, err := ReadGraph(bytes.NewReader(packed))
			if err == nil && g.Edges() == 0 {
				err = errors.New("the graph has no edge")
			}
			if err != nil {
				return err
			}
			return g.replay(mk)
		}})
	}
	return list
}

// walk compares the machine and the model in one long run.
func (mk maker) walk(v variant, d depth) func(*rapid.T) error {
	return func(t *rapid.T) error {
		w := walk{host: host{twin: twin{maker: mk, depth: d}}}
		w.start(t, v, false)
		return w.repeat(t)
	}
}

// promise looks for a run in which one promise is broken; a difference is none.
func (mk maker) promise(broken func(*host) error) func(*rapid.T) error {
	return func(t *rapid.T) error {
		w := walk{host: host{twin: twin{maker: mk, depth: promised}, watch: broken}}
		w.start(t, rapid.SampledFrom(variants).Draw(t, "variant"), false)
		return w.repeat(t)
	}
}

// allAcknowledged is a run, and then no more faults.
func (mk maker) allAcknowledged(t *rapid.T) error {
	w := walk{host: host{twin: twin{maker: mk, depth: promised}, watch: func(*host) error { return nil }}}
	w.start(t, rapid.SampledFrom(variants).Draw(t, "variant"), true)
	if err := w.repeat(t); err != nil {
		return err
	}
	w.drain()
	return w.failure()
}

// property is the error of the smallest run that rapid finds for which prop has one.
func property(test string, prop func(*rapid.T) error) error {
	var last error
	tb, done := &recorder{name: test}, make(chan struct{})
	go func() {
		defer close(done)
		rapid.Check(tb, func(t *rapid.T) {
			if last = prop(t); last != nil {
				t.Fatalf("%v", last)
			}
		})
	}()
	<-done
	if !tb.failed {
		return nil
	}
	seed := regexp.MustCompile(`-rapid\.seed=\d+`).FindString(tb.log.String())
	if last == nil || seed == "" {
		return errors.New(tb.log.String()) // rapid itself has something to say
	}
	return fmt.Errorf("%w\nrepeat it with: go test -run '^%s$' %s", last, strings.ReplaceAll(test, "/", "$/^"), seed)
}

// recorder stands for a test whose failure is looked at.
type recorder struct {
	rapid.TB // the methods not below are not called
	name     string
	failed   bool
	log      strings.Builder
}

func (r *recorder) Helper()                         {}
func (r *recorder) Name() string                    { return r.name }
func (r *recorder) Logf(format string, args ...any) { fmt.Fprintf(&r.log, format+"\n", args...) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.Logf(format, args...)
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.FailNow()
}
func (r *recorder) Log(args ...any) { fmt.Fprintln(&r.log, args...) }
func (r *recorder) Failed() bool    { return r.failed }
func (r *recorder) FailNow()        { r.failed = true; runtime.Goexit() }
