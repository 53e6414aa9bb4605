package model

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
)

// A graph file is gzip of text:
//
//	tidemark-graph 1
//	file <name> <SHA-256>                     three lines
//	constant <Name> = <value>                 eleven lines
//	count <streams> <images> <steps> <states> <edges>
//	<stream>                                  one line each, numbered from 0, see FormatStream
//	<image>                                   likewise
//	<action> <arg> <body> <answer>            the steps, likewise
//	<stream> <image> <edge> <edge> ...        the states: stream and image by their numbers
//
// An edge is <step>, <step>:<stream> or <step>:<stream>:<image>: what is left out does not change.
// States are sorted, so that those with the same stream, which have almost the same edges, are
// neighbours: this is what makes the file small.
const graphHeader = "tidemark-graph 1"

const constantCount, fileCount = 11, 3

// graphReader reads lines and counts them for its errors.
type graphReader struct {
	scan *bufio.Scanner
	line int
	fields
}

// ReadGraph reads a graph file. The error names the line.
func ReadGraph(r io.Reader) (*Graph, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	in := graphReader{scan: bufio.NewScanner(unzipped)}
	in.scan.Buffer(nil, 1<<20)
	g := new(Graph)
	in.head(g)
	in.body(g)
	if in.err != nil {
		return nil, fmt.Errorf("graph: line %d: %w", in.line, in.err)
	}
	return g, nil
}

// next goes to the next line; after a failure there is none.
func (in *graphReader) next() bool {
	if len(in.words) > 0 {
		in.fail("%q is too much", in.words[0])
	}
	if in.err != nil {
		return false
	}
	in.line++
	if !in.scan.Scan() {
		if in.err = in.scan.Err(); in.err == nil {
			in.err = io.ErrUnexpectedEOF
		}
		return false
	}
	in.words = strings.Fields(in.scan.Text())
	return true
}

func (in *graphReader) expect(word string) {
	if got := in.word(); got != word {
		in.fail("%q, allowed is %q", got, word)
	}
}

func (in *graphReader) head(g *Graph) {
	if in.next() && in.scan.Text() != graphHeader {
		in.fail("%q, allowed is %q", in.scan.Text(), graphHeader)
	}
	in.words = nil
	for len(g.Files) < fileCount && in.next() {
		in.expect("file")
		g.Files = append(g.Files, File{Name: in.word(), Sum: in.word()})
	}
	var constants []string
	for len(constants) < constantCount && in.next() {
		in.expect("constant")
		constants = append(constants, strings.Join(in.words, " "))
		in.words = nil
	}
	if in.err == nil {
		g.Constants, in.err = ParseConstants(constants)
	}
}

func (in *graphReader) body(g *Graph) {
	if !in.next() {
		return
	}
	in.expect("count")
	streams, images, steps, states, edges := in.int(), in.int(), in.int(), in.int(), in.int()
	for len(g.Streams) < streams && in.next() {
		g.Streams = append(g.Streams, in.stream())
	}
	for len(g.Images) < images && in.next() {
		g.Images = append(g.Images, in.image())
	}
	for len(g.Steps) < steps && in.next() {
		g.Steps = append(g.Steps, in.step())
	}
	for len(g.States) < states && in.next() {
		g.States = append(g.States, in.state(g))
	}
	if n := g.Edges(); n != edges {
		in.fail("%d edges, announced were %d", n, edges)
	}
	if in.err == nil && in.scan.Scan() {
		in.line++
		in.fail("%q is too much", in.scan.Text())
	}
}

func (in *graphReader) state(g *Graph) State {
	st := State{Place: Place{in.index(in.word(), len(g.Streams)), in.index(in.word(), len(g.Images))}}
	st.Edges = make([]Edge, 0, len(in.words))
	for len(in.words) > 0 {
		step, place, moved := strings.Cut(in.word(), ":")
		e := Edge{Step: in.index(step, len(g.Steps)), To: st.Place}
		if moved {
			stream, image, other := strings.Cut(place, ":")
			e.To.Stream = in.index(stream, len(g.Streams))
			if other {
				e.To.Image = in.index(image, len(g.Images))
			}
		}
		st.Edges = append(st.Edges, e)
	}
	return st
}

// index is a number below n.
func (in *graphReader) index(word string, n int) int {
	i := in.parse(word)
	if i >= uint64(n) {
		in.fail("%q, allowed are 0 to %d", word, n-1)
		return 0
	}
	return int(i)
}

// Encode writes the graph file. The bytes depend on the graph alone.
func (g *Graph) Encode(w io.Writer) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(zipped)
	fmt.Fprintln(out, graphHeader)
	for _, f := range g.Files {
		fmt.Fprintln(out, "file", f.Name, f.Sum)
	}
	for _, c := range g.Constants.lines() {
		fmt.Fprintln(out, "constant", c)
	}
	fmt.Fprintln(out, "count", len(g.Streams), len(g.Images), len(g.Steps), len(g.States), g.Edges())
	for i := range g.Streams {
		fmt.Fprintln(out, FormatStream(&g.Streams[i]))
	}
	for i := range g.Images {
		fmt.Fprintln(out, FormatImage(&g.Images[i]))
	}
	for i := range g.Steps {
		fmt.Fprintln(out, FormatStep(&g.Steps[i]))
	}
	for i := range g.States {
		writeState(out, &g.States[i])
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return zipped.Close()
}

func writeState(out io.Writer, st *State) {
	fmt.Fprintf(out, "%d %d", st.Stream, st.Image)
	for _, e := range st.Edges {
		switch {
		case e.To.Image != st.Image:
			fmt.Fprintf(out, " %d:%d:%d", e.Step, e.To.Stream, e.To.Image)
		case e.To.Stream != st.Stream:
			fmt.Fprintf(out, " %d:%d", e.Step, e.To.Stream)
		default:
			fmt.Fprintf(out, " %d", e.Step)
		}
	}
	fmt.Fprintln(out)
}
