package model

import (
	"github.com/tidemark/tidemark/statemachine"
)

// Graph is the complete state graph of one StreamGraph config. A state is a stream with an image in
// the store, the variables s and image of StreamGraph.tla.
type Graph struct {
	Files     []File // what it was made from: Stream.tla, StreamGraph.tla and the config, in this order
	Constants Constants
	Streams   []statemachine.State // each different stream once
	Images    []statemachine.Image // each different image once
	Steps     []Step               // each different step once
	States    []State              // the first is Init
}

// File is a file of docs/spec and the SHA-256 of its content, in hexadecimal.
type File struct{ Name, Sum string }

// State is a state and all the steps that leave it.
type State struct {
	Place
	Edges []Edge
}

// Place is a stream and an image, as indices into Graph.Streams and Graph.Images.
type Place struct{ Stream, Image int }

// Edge takes a step, an index into Graph.Steps, to another state or back to the same.
type Edge struct {
	Step int
	To   Place
}

// Call is an action with its arguments.
type Call struct {
	Action string
	// Arg is the batch number of Anchor, Receive, Skip and Commit, first of Rebase, n of Emit and Settle,
	// the checkpoint of Rollback, Snapshot, Complete and Abort; 0 for Resume and Restore.
	Arg  uint64
	Body uint64 // of the batch of Receive, else 0
}

// Step is a call and what it tells: the reply of Receive and Commit, the lost numbers of Rebase (see
// FormatRanges), NoAnswer otherwise.
type Step struct {
	Call
	Answer string
}

// NoAnswer is the answer of a step that tells nothing.
const NoAnswer = "-"

// Edges counts the edges of all states.
func (g *Graph) Edges() int {
	n := 0
	for i := range g.States {
		n += len(g.States[i].Edges)
	}
	return n
}

// Name is the name of the config.
func (g *Graph) Name() string { return g.Files[len(g.Files)-1].Name }
