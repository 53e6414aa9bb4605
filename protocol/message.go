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

// A Message tells of one request, of one reply to one command, or of what one side of dialect 2 says without being asked.
type Message struct {
	Dialect int
	From    Side
	Command Command // the request, or the one that the reply answers; 0: a message of the ingress in dialect 2
	Code    Code    // 0: it is from the collector
	Closes  bool    // the sender closes the connection after it
}

// Messages yields all messages of a dialect: those of the collector, then those of the ingress. It yields none for an
// unknown dialect.
func Messages(dialect int) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for _, m := range messages {
			if m.Dialect == dialect && !yield(m) {
				return
			}
		}
	}
}
