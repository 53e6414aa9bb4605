package main

import (
	"io"
	"net"
)

// relay is where processes find the server of now: each server listens on a port of its own.
type relay struct {
	net.Listener
	server func() string
}

func newRelay(server func() string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{l, server}
	go r.serve()
	return r, nil
}

func (r *relay) address() string { return r.Addr().String() }

func (r *relay) serve() {
	for {
		conn, err := r.Accept()
		if err != nil {
			return
		}
		go r.pass(conn)
	}
}

// pass copies both ways until either side has ended.
func (r *relay) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", r.server())
	if err != nil {
		return
	}
	defer to.Close()
	ended := make(chan struct{}, 2)
	go func() { io.Copy(to, from); ended <- struct{}{} }()
	go func() { io.Copy(from, to); ended <- struct{}{} }()
	<-ended
}
