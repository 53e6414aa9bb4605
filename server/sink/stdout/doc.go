// Package stdout is the sink that writes records to a stream such as the standard output, each with
// one LF: [New] makes a [Sink].
//
// The rule of the package: at least once. What went into a pipe can't be taken back, so after a crash
// the batches since the last checkpoint come again; [Sink.Traits] says so. A record is as safe as
// whoever reads the stream makes it.
package stdout
