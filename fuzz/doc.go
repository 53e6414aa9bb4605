// Package fuzz holds the fuzz targets that go through what the packages of this module export: one for each request
// and each reply of the protocol, and those for records, packets, images and deltas of a stream, the checkpoint log, the
// journal of a collector, scripts, and the files that options come from. There is nothing to import.
//
// The rule of the package: whatever the bytes, a decoder does not panic; what it takes it writes back as it was; what
// comes in pieces means what the whole means; what is cut or damaged is refused, or read as a beginning of what was
// written; and the bytes that are allocated are bounded by the bytes that came ([bounded] in memory_test.go measures
// it, and each call gives the bound and its reason). targets_test.go refuses a message of the protocol without a
// target.
//
// `go test ./fuzz` runs all targets on their seeds: the vectors of protocol/testdata, the encodings of
// model/testdata, the scripts, and the files below testdata/fuzz. `make fuzz FUZZTIME=30s` runs every target of the
// module for that time. For one of them:
//
//	go test ./fuzz -run '^$' -fuzz '^FuzzBatch$' -fuzztime 30s
//
// An input that fails is written to testdata/fuzz/<target>/ by itself, and `go test ./fuzz` fails from then on; the
// output names the command that runs this one input. Commit the file together with the fix: it is a seed now.
//
// A new message of the protocol is one line in the list of its dialect, requests_test.go and replies_test.go or those with
// the dialect's number, and the fields that it carries.
//
// Two targets are not here: FuzzLoad and FuzzBody of package checkpointlog put frames with right checks, and a disk in
// memory, below what that package exports.
package fuzz
