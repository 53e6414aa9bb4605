// Package file is the sink that appends records to one file: [Open] makes a [Sink], and [Framing] says
// how its records are told apart.
//
// The rule of the package: the bytes of the file up to the position of the last checkpoint are exactly
// the records acknowledged, each once. A position holds the path, the inode, the offset and a checksum
// of the bytes before it. [Sink.Recover] cuts the file back to it and keeps what it cuts in
// PATH.cut-N; when the file can't be the one the position speaks of, it refuses to guess, and
// Options.Recover is the operator's answer.
//
// It implements the sink of System.tla that commits together with the checkpoint.
package file
