// Package mutants shows that the tests can fail. TestMutants breaks the shipped code in one place at a time, with the
// mistakes of the published design and those that the specification was written to exclude, and runs the layers of tests
// on it: each mutant must be caught. What catches which is the table of docs/en/verification.md. By default two of the layers
// that catch a mutant run on it; `make mutants` runs all, and compares the table, or writes it anew with UPDATE=1.
//
// A mutant is a change of a few lines of source, so it breaks what is shipped and not a copy of it. The changed files are
// put over the real ones while a test binary is compiled (go build -overlay); nothing in the tree is touched. A mutant
// whose lines are not there any more fails the test: it must be kept up with the code.
//
// Some faults lie between a host and the machine: what is stored when, in which order. Those are made in package server,
// and, where the specification speaks of it, also in the world that the explorer walks through.
package mutants
