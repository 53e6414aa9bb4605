// Package sink is where the server delivers batches: [Sink] and its [Txn] are the interface, and
// [Traits] say how much a sink promises. The packages file and stdout beside it are two; package
// sinktest is the contract as tests that every sink must pass.
//
// The rule of the package: a batch that Write took, that was sealed, and whose Commit returned nil is
// in the sink for good. The server tells its collector to forget it right after.
//
// # What you must do in Commit, or data is lost
//
// Do not return nil before everything written to this transaction would survive a power cut:
//
//   - A file: fsync or fdatasync it. Handing bytes to the operating system is not enough, and neither
//     is a bufio.Writer's Flush. When the sync fails, return an error that does not wrap
//     [ErrTransient], and never sync that file again: the kernel may have dropped the pages, and the
//     next sync reports success.
//   - A new file: sync its directory too, at the latest in the first Commit.
//   - A database: COMMIT, and with a synchronous_commit, innodb_flush_log_at_trx_commit or the like
//     that means durable. A lost connection during COMMIT is an unknown outcome, not a transient
//     error: ask the database whether the transaction is there, or return an error that ends the
//     server.
//   - A queue or an HTTP peer: wait for the acknowledgement of each record that says it is stored,
//     replicated if that is what you rely on; not for the one that says it was received.
//
// Return an error that wraps [ErrTransient] only when nothing changed: Commit is called again on the
// same Txn. Commit covers what was written before Seal; the next transaction may be written while it
// runs, and making some of that durable too is harmless if Recover undoes it.
//
// A sink with Traits.ExactlyOnce must also be able to undo: the position that Seal returned is stored
// with the checkpoint, after Commit, and Recover takes the sink back to it, durably, before anything
// is delivered again. A sink that can't undo says so in its Traits, and a crash then delivers the
// batches since the last checkpoint twice.
//
// A sink implements Write, Seal, Commit and the sink's part of a crash in docs/spec/System.tla.
package sink
