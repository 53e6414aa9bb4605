// Package disk is the handful of file calls whose failures decide whether data is kept: [FS] and
// [File], with [OS] as the real one. Stores and sinks write through it, so that their tests can let
// any single call fail, or cut the power between any two (package disktest).
//
// The rule of the package: it adds no buffering and no retries, and a file once opened is appended
// to, never written in the middle.
package disk
