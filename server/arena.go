package server

// arena hands out room for payloads from chunks, so that small batches cost no allocation each. A
// chunk lives as long as a payload in it is held.
type arena struct{ chunk []byte }

const chunkSize = 32 << 10

// room is an empty slice at the end of the chunk with at least n bytes of room behind it.
func (a *arena) room(n int) []byte {
	if n > chunkSize/4 {
		return make([]byte, 0, n)
	}
	if cap(a.chunk)-len(a.chunk) < n {
		a.chunk = make([]byte, 0, chunkSize)
	}
	return a.chunk[len(a.chunk):]
}

// keep makes what was appended to room permanent; without it the next room is the same again.
func (a *arena) keep(b []byte) []byte {
	if len(b) <= cap(a.chunk)-len(a.chunk) && len(b) > 0 && &a.chunk[:cap(a.chunk)][len(a.chunk)] == &b[0] {
		a.chunk = a.chunk[:len(a.chunk)+len(b)]
	}
	return b[:len(b):len(b)]
}
