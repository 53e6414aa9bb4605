package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"github.com/tidemark/tidemark/model"
	"github.com/tidemark/tidemark/statemachine"
)

// table numbers different values in the order they come. Equal values can look different in TLC's
// output, so that each look is parsed once and the value then found by its canonical text.
type table[T any] struct {
	parse  func([]byte) (T, error)
	text   func(*T) string
	looks  map[string]int
	known  map[string]int
	values []T
	keys   []string
}

func newTable[T any](parse func([]byte) (T, error), text func(*T) string) *table[T] {
	return &table[T]{parse: parse, text: text, looks: map[string]int{}, known: map[string]int{}}
}

func (t *table[T]) number(look []byte) (int, error) {
	if n, ok := t.looks[string(look)]; ok {
		return n, nil
	}
	v, err := t.parse(look)
	if err != nil {
		return 0, err
	}
	key := t.text(&v)
	n, ok := t.known[key]
	if !ok {
		n = len(t.values)
		t.known[key] = n
		t.values, t.keys = append(t.values, v), append(t.keys, key)
	}
	t.looks[string(look)] = n
	return n, nil
}

// sorted is the values in the order of their texts, and the new number of each old one.
func (t *table[T]) sorted() (values []T, renumber []int) {
	order := make([]int, len(t.values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(t.keys[a], t.keys[b]) })
	renumber = make([]int, len(order))
	for now, old := range order {
		renumber[old] = now
		values = append(values, t.values[old])
	}
	return values, renumber
}

// builder collects the edges that TLC prints.
type builder struct {
	streams *table[statemachine.State]
	images  *table[statemachine.Image]
	steps   *table[model.Step]
	edges   map[model.Place][]model.Edge
}

// build reads TLC's output into g. TLC must have finished, and have found as many states and steps
// as it printed.
func build(g *model.Graph, in io.Reader) error {
	b := builder{
		streams: newTable(parseStream, model.FormatStream),
		images:  newTable(parseImage, model.FormatImage),
		steps:   newTable(parseStep, model.FormatStep),
		edges:   map[model.Place][]model.Edge{},
	}
	said, err := b.read(in)
	if err != nil {
		return err
	}
	b.fill(g)
	return check(g, said)
}

// read takes the steps in and returns everything else that TLC said.
func (b *builder) read(in io.Reader) (said []byte, err error) {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		text := scan.Bytes()
		if !bytes.HasPrefix(text, []byte(`"`)) {
			said = append(append(said, text...), '\n')
			continue
		}
		if err := b.add(text); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return said, scan.Err()
}

func (b *builder) add(text []byte) error {
	l, err := parseLine(text)
	if err != nil {
		return err
	}
	var from, to model.Place
	var edge model.Edge
	var errs [5]error
	from.Stream, errs[0] = b.streams.number(l.From)
	from.Image, errs[1] = b.images.number(l.Image)
	edge.Step, errs[2] = b.steps.number(l.Step)
	to.Stream, errs[3] = b.streams.number(l.To)
	to.Image, errs[4] = b.images.number(l.ToImage)
	edge.To = to
	b.edges[from] = append(b.edges[from], edge)
	return errors.Join(errs[:]...)
}

// fill numbers everything anew, in an order that depends on the values alone.
func (b *builder) fill(g *model.Graph) {
	var streams, images, steps []int
	g.Streams, streams = b.streams.sorted()
	g.Images, images = b.images.sorted()
	g.Steps, steps = b.steps.sorted()
	renumber := func(p model.Place) model.Place { return model.Place{Stream: streams[p.Stream], Image: images[p.Image]} }
	for from, edges := range b.edges {
		st := model.State{Place: renumber(from)}
		for _, e := range edges {
			st.Edges = append(st.Edges, model.Edge{Step: steps[e.Step], To: renumber(e.To)})
		}
		slices.SortFunc(st.Edges, func(a, b model.Edge) int { return cmp.Compare(a.Step, b.Step) })
		g.States = append(g.States, st)
	}
	slices.SortFunc(g.States, func(a, b model.State) int { return comparePlaces(a.Place, b.Place) })
}

func comparePlaces(a, b model.Place) int {
	return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Image, b.Image))
}

var summary = regexp.MustCompile(`(?m)^(\d+) states generated, (\d+) distinct states found, 0 states left`)

// check refuses a graph that is not complete.
func check(g *model.Graph, said []byte) error {
	m := summary.FindSubmatch(said)
	if m == nil || !bytes.Contains(said, []byte("No error has been found")) {
		return fmt.Errorf("TLC did not finish without an error; it said:\n%s", said)
	}
	generated, _ := strconv.Atoi(string(m[1]))
	distinct, _ := strconv.Atoi(string(m[2]))
	if len(g.States) != distinct || g.Edges() != generated-1 {
		return fmt.Errorf("%d states and %d edges, but TLC found %d and %d", len(g.States), g.Edges(), distinct, generated-1)
	}
	for _, st := range g.States {
		for _, e := range st.Edges {
			if !hasState(g, e.To) {
				return fmt.Errorf("no step leaves the state %v that a step of %v leads to", e.To, st.Place)
			}
		}
	}
	if first := g.Streams[g.States[0].Stream]; first.Anchored || first.Epoch > 0 {
		return fmt.Errorf("the first state is %s, not Fresh", model.FormatStream(&first))
	}
	return nil
}

func hasState(g *model.Graph, p model.Place) bool {
	_, ok := slices.BinarySearchFunc(g.States, p, func(s model.State, p model.Place) int { return comparePlaces(s.Place, p) })
	return ok
}
