// Package store is what the server keeps checkpoints in: [Store] is the interface, [Checkpoint] what
// goes in and [Stored] what comes out after a restart. Package checkpointlog beside it is the one the
// server uses; package storetest is the contract as tests that every store must pass.
//
// The rule of the package: what Save, Anchor or Load returned without an error survives a power cut
// right after. The server answers collectors on the strength of it, and they forget.
//
// A store implements Save, the anchoring and the crash of docs/spec/System.tla: a checkpoint is there
// whole or not at all, and after a crash the last one that is there is what the server goes on from.
// Beside the image of a stream it keeps its seat, as the disk of docs/spec/Seat.tla: who may write the
// stream is stored before anything else happens, so it does not wait for a checkpoint.
package store
