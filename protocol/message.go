package protocol

import "iter"

// A Side is one end of a connection.
type Side uint8

const (
	// Collector is the end that holds batches until they are acknowledged.
	Collector Side = 1
	// Ingress is the end that takes batches and acknowledges them.
	Ingress Side = 2
)

// A Message tells of one request, or of one reply to one command.
type Message struct {
	Dialect int
	From    Side
	Command Command // the request, or the one that the reply answers
	Code    Code    // 0: it is a request
	Closes  bool    // the sender closes the connection after it
}

// Messages yields all messages of a dialect: its requests, then its replies. It yields none for an unknown dialect.
func Messages(dialect int) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for _, m := range messages {
			if m.Dialect == dialect && !yield(m) {
				return
			}
		}
	}
}
