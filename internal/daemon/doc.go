// Package daemon runs tidemarkd as a process of its own: for tests of the programs, and for the tools that kill it.
// [Build] makes the programs, [Start] runs one and returns a [Process] when it is ready.
//
// The rule of the package: no process outlives its Kill, Stop or Wait, and what it printed can be read afterwards.
package daemon
