// Package checkpointlog is the store of the server: one append-only file per data directory. [Open]
// makes a [Log], [Read] and [Inspect] look at one without disturbing it.
//
// The rule of the package: a frame is whole and durable, or it is cut off as if it had never been
// begun; anything else is a [*Damage] that names file and offset, and an operator decides. What tells
// the two apart is the mark behind each frame, written after the frame was synced and before anyone
// is told.
//
// A data directory holds checkpoint.log and lock; while the log is being rewritten, checkpoint.log.tmp;
// and what an operator's recovery kept, checkpoint.log.damaged-N. A directory that is empty or not
// there is a first run. The form of the file is in frame.go.
//
// It implements Save, the anchoring and the crash of docs/spec/System.tla, and the store of
// docs/spec/Seat.tla.
package checkpointlog
