// Package protocol reads and writes what collectors and the ingress say to each other.
//
// Dialect 1 is the EdgeSocket line protocol: [Parser] reads requests from bytes as they come, [AppendReply] answers
// them, and [AppendBatch] and its kin with [ParseReply] are the collector's side. [AppendRecord] and [Records] are the
// encoding of a batch's records. [PacketDecoder] unpacks payloads of packet mode.
//
// The rule of the package: bytes from outside never make it panic, take memory without bound, or read differently
// when they arrive in other pieces. What is wrong comes back as an [*Error] with the [Code] to answer. It does no I/O,
// starts no goroutine and knows no other package of this module. The rules that need memory of a connection (AUTH
// first and once, what stands refused) are not here.
//
// The commands, codes and forms are generated from spec/protocol.yaml, which is the specification, by `make generate`.
// docs/en/protocol.md explains it to people, and testdata/vectors.json holds examples for other languages.
package protocol
