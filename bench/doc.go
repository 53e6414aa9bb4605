// Bench compares Tidemark with its peers in one run, with the same payload and an acknowledgement that means durable:
// `go run .` in this folder. README.md says what each figure means and what each peer was configured with.
//
// A [Peer] starts a [Server], which is a process of its own, so that CPU time and memory are the server's; a [Conn] is one
// collector's connection to it. Everything else knows nothing of the peers: the load, the measurement, the kill, the report.
//
// The rule of the program: a figure is measured in the run that prints it, and a peer that can't run here is named with
// the reason. It reads /proc and calls fdatasync: Linux only.
package main
