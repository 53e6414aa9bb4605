// Package lint holds the rules of this repository that a test can keep: which package may import which, that no test
// sleeps, that each package says what it is for, and that files and functions stay small enough to read.
//
// It has no code of its own. A rule has no list of exceptions: what breaks it is mended, or the rule is changed.
package lint
