package protocol

import "bytes"

// hello is what a connection of dialect 2 begins with.
var hello = []byte(CommandHello.String() + string(headerSeparator))

// Dialect tells the dialect of a connection by its first bytes: 2 when they say HELLO, 1 for anything else, which
// dialect 1 then answers. 0: more bytes are needed to tell, 6 at most.
func Dialect(prefix []byte) int {
	switch {
	case bytes.HasPrefix(prefix, hello):
		return 2
	case bytes.HasPrefix(hello, prefix):
		return 0
	}
	return 1
}
