// Package server is the ingress: it takes batches from collectors over TCP, delivers them to a sink,
// and acknowledges a watermark only when a durable checkpoint covers it.
//
// [New] makes a [Server] of [Options], [Server.Serve] runs it on a listener, and [Server.Handler] is
// its HTTP side: metrics, health, streams.
//
// The way of a batch, top to bottom:
//
//	connection.go  bytes become requests, requests become replies, in order
//	request.go     AUTH, BATCH and COMMIT of dialect 1
//	dialect2.go    BATCH and all else of dialect 2, but for
//	seat.go        HELLO and READY, which say who writes a stream
//	stream.go      one collector's stream: the state machine, its lock and its seat
//	deliver.go     one goroutine gives the queues to the sink in turn, and takes the barrier
//	checkpoint.go  another one makes what was sealed durable, and completes it
//	push.go        the ACK of dialect 2, to the connection that has the seat
//
// The rule: the sink commits, then the store saves, then the machine completes, then a reply says so.
// No I/O is done under a stream's lock, so COMMIT and metrics are answered however slow the sink is.
//
// What a batch may be answered is decided by package statemachine alone, whose specification is
// docs/spec; how it looks on the wire by package protocol.
package server
