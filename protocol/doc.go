// Package protocol reads and writes what collectors and the ingress say to each other.
//
// [Dialect] tells the dialect of a connection by its first bytes. Dialect 1 is the EdgeSocket line protocol: [Parser]
// reads requests from bytes as they come, [AppendReply] answers them, and [AppendBatch] and its kin with [ParseReply] are
// the collector's side. What ends in 2 belongs to dialect 2, in which both sides speak when they have something to say:
// [Parser2] and [AppendReply2] are the ingress's side, [ReplyParser2], [AppendHello2], [AppendBatch2] and their kin the
// collector's. [AppendRecord], [Records] and [CheckRecords] are the encoding of a batch's records. [PacketDecoder] unpacks
// payloads of packet mode, which belongs to dialect 1.
//
// The rule of the package: bytes from outside never make it panic, take memory without bound, or read differently
// when they arrive in other pieces. What is wrong comes back as an [*Error] with the [Code] to answer. It does no I/O,
// starts no goroutine and knows no other package of this module. The rules that need memory of a connection (AUTH
// first and once, HELLO before READY, what stands refused, the window) are not here.
//
// The commands, codes and forms are generated from spec/protocol.yaml, which is the specification, by `make generate`.
// docs/en/protocol.md explains it to people, and testdata/vectors.json holds examples for other languages.
package protocol
