package server

import (
	"net"
)

const (
	firstRead  = 4 << 10  // an idle connection's buffer
	retainRead = 64 << 10 // a buffer above this is given back when the long line is through
)

// input is what a connection has read and not used yet.
type input struct {
	buf  []byte // buf[at:] is unread
	at   int
	full bool // the last read found more than it had room for, perhaps
}

func (in *input) unread() []byte { return in.buf[in.at:] }

func (in *input) used(n int) { in.at += n }

// fill reads more. It makes room first: by moving what is unread to the front, and by a larger buffer
// when a line needs one, which the parser bounds, when the peer sends much, or when need bytes are to come.
func (in *input) fill(conn net.Conn, need int) error {
	n := copy(in.buf, in.unread())
	in.buf, in.at = in.buf[:n], 0
	switch {
	case need > cap(in.buf):
		in.buf = append(make([]byte, 0, need), in.buf...)
	case cap(in.buf) > retainRead && n <= firstRead/2:
		in.buf = append(make([]byte, 0, retainRead), in.buf...)
	case n == cap(in.buf) || in.full && cap(in.buf) < retainRead:
		in.buf = append(make([]byte, 0, max(firstRead, 2*cap(in.buf))), in.buf...)
	}
	read, err := conn.Read(in.buf[n:cap(in.buf)])
	in.buf = in.buf[:n+read]
	in.full = len(in.buf) == cap(in.buf)
	if read > 0 {
		return nil
	}
	return err
}

// rest gives back a buffer that has grown, when nothing comes.
func (in *input) rest() {
	if len(in.unread()) == 0 && cap(in.buf) > firstRead {
		*in = input{}
	}
}
