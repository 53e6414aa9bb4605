// Package statemachine is one collector's stream inside an ingress, as a pure state machine, and the
// rules of a connection to it. [Stream] is the machine, [Session] a dialect-1 connection, [Seat] who may write
// in dialect 2, [Image] what a checkpoint stores.
//
// A collector numbers its batches n, n+1, n+2, … and may forget a batch only when a watermark at or
// above its number was acknowledged. The machine decides what may be acknowledged; the host does all
// I/O around it. The specification is docs/spec/Stream.tla and, for Session, docs/spec/System.tla, for Seat,
// docs/spec/Seat.tla: each operator there is the method of the same name here, and the graphs that TLC makes of
// Stream.tla are replayed on this code, step by step, in package model.
//
// # The way of a batch
//
//	Receive  the collector's batch is queued once       RECEIVED
//	Emit     batches go from the queue to the sink
//	Settle   the sink took the first n of them
//	Snapshot the watermark is frozen for a checkpoint, and the image taken
//	Complete the checkpoint is durable
//	Commit   may the collector forget it?               ACK, PENDING, RESEND, RETRY
//
// The watermark is the lowest unfinished number less one, or the highest received when nothing is
// unfinished. It is frozen by Snapshot, never read at completion: what arrives in between is not in the
// image.
//
// # What the host owes
//
// Break one of these and the machine will acknowledge what is lost:
//
//   - The image after Anchor is durable before the first RECEIVED is sent.
//   - Snapshot, the image, and the end of the sink's transaction are one instant: no delivery of this
//     stream is half taken then, and nothing settled later belongs to it.
//   - Complete(c) states that everything settled before Snapshot(c) is durable in the sink, whatever
//     became of older checkpoints, and that the image taken then is durable in the store. The sink
//     first, or both in one step.
//   - Abort(c) is for a sink that keeps c's rows for its next commit. A sink that lost rows needs
//     Rollback: Rollback(c) when only what came after the barrier of c is lost and c may still
//     complete, Rollback(0) when c is lost too. A commit whose outcome is unknown is neither: ask the
//     sink first.
//   - A checkpoint number is used once in a life, and a sink that can be reached by an earlier life
//     must refuse the commit of a lower number than it has seen.
//   - An ACK is taken from Session.Commit, not from Stream.Commit: the connection must have proved that
//     it speaks of the same batches. In dialect 2 it is taken from Seat.Push.
//   - A batch that the host refuses by itself is told to Session.Refuse, or Seat.Refuse and Seat.Nack.
//   - What Lost returns before a Rebase is reported to people, and what Seat.Ready and Seat.Skip give up.
//   - When Seat.Ready says that something is not stored, it is durable before anything else happens on the connection;
//     the connection that Seat.Hello names is closed. After Conflict or Stale a dialect-2 connection is closed too.
//
// What is durable is the last saved image. A new life begins with Restore and the sink as it was at that
// image.
//
// # What is not promised
//
// A sink that can't undo what came after the last checkpoint gets those batches twice after a crash.
// A lost store gives duplicates, no loss. A collector that numbers with gaps must send again all it holds,
// in order, on every connection (Limits.Sparse). A digest is 64 bits: two different batches under one
// number are told apart but for a chance of 2^-64.
//
// # Use
//
// Stream and Session belong to one goroutine at a time; hosts hold a lock per stream and do no I/O
// under it. An action whose Can… method says false panics, for that is a fault of the host. Whatever a
// collector sends is answered. In the steady state no action allocates.
//
// # Glossary
//
//	batch       n >= 1 records under one number, taken whole or not at all
//	watermark   everything at or below it is delivered
//	committed   the watermark of the last completed checkpoint: what may be acknowledged
//	anchor      where a collector's numbers begin
//	missing     numbers whose payload is not here; the collector must send them
//	settled     taken by the sink and not yet covered: still held, in case the sink loses it
//	epoch       restarts a stream survived; for people, not unique
package statemachine
