// Package explore takes every step of a bounded world on the shipped state machine: what TLC does with
// System.tla and Seat.tla, but with [statemachine.Stream], and [statemachine.Session] or [statemachine.Seat], in
// the middle.
//
// [ReadConfig] reads one of the System configs of docs/spec, [Explore] searches its world breadth first and
// checks the invariants, and [Run] takes the steps of a script, for example those of a [Violation].
// A [Maker] other than [Shipped] can be put in, to see what the explorer finds in it. [ReadSeatConfig],
// [ExploreSeat] and [RunSeat] are the same for the Seat configs; there also the collector's decisions can be
// put in, as a [Collector]: [PlainCollectors] are those of Seat.tla, word for word.
//
// The rule of the package: collector, link, sink, store and faults are those of docs/spec/System.tla, or of
// Seat.tla, an action there is the method of the same name here, and nothing of the machine is modelled. For
// each config the counts are TLC's: the same worlds, and the same steps between them. Counts alone show that
// the code takes the steps of the specification; the invariants say so again, with a trace.
//
// # What is compared
//
// A world is known by its bytes, not by a hash of them. A stream in it is known by
// [statemachine.Stream.AppendKey], which holds more than the specification knows: how images of earlier
// checkpoints differ from that of now, by which Dirty is decided. That the counts are TLC's all the same
// shows that this follows from what the specification knows. Checkpoint numbers rise as in a host, where the
// specification has number 1 alone; a key knows their distance from the last one. A seat is known by all its
// fields.
//
// Some properties are checked beyond those that a config names: Dirty, that the machine's Dirty says what
// comparing the images says; Rises, on each step in System.tla; in Seat.tla LostIsGone, on each step, and
// Reported, that what the stream gave up was reported as lost: the counts would not show it if it was not.
// Liveness (AllAcknowledged) is TLC's alone.
package explore
