// Package config reads the options of the programs: from flags, the environment, a YAML file and their defaults, in
// this order of precedence.
//
// [ParseServer] yields a checked [Server]. [Kong] is what a program with several commands gives to kong, so that a
// [Send] in its grammar is read the same way. All that is wrong comes back as a [*UsageError], which programs turn
// into exit code 2.
//
// The rule of the package: an option exists here, in its documents and in the program, or nowhere. The options are
// generated from spec/options.yaml by `make generate`; docs/en/options.md tells of them.
package config
