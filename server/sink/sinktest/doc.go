// Package sinktest is the contract of package sink as tests. [Run] takes a sink through all of it;
// [Checks] are the same as functions, for other ways to run them. A [Harness] is what a sink's own
// tests provide.
//
// The rule of the package: a check looks only at what a sink returns and at what a reader finds in
// it, so it fits every sink.
package sinktest
