// Package model is the specification in Go, and what holds an implementation against it.
//
// [Gate] runs the contract on any implementation, in its own CI: scripts, random runs, promises and, with [GateExact],
// every step of TLC's graphs. docs/en/gate.md shows how. [Sequential] and [SequentialSession] are docs/spec/Stream.tla and
// the rules of a connection in System.tla, operator by operator, slow and obvious. [Script] runs stories such as those in
// statemachine/testdata; every random failure prints one.
//
// A [Graph] is every state and every step of a bounded stream, as TLC found them in one StreamGraph config; [ReadGraph]
// reads it, and [Graph.Replay] takes each of these steps on package statemachine and tries each step that the Go code
// allows: both must allow the same steps, with the same outcome, neither more nor less.
//
// The rule of the package: what it expects comes from the specification in docs/spec, never from the code under test. A
// graph names the SHA-256 of the files it was made from, so that a changed specification can't pass with an old graph.
package model
