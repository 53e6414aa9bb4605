package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// forget sends one record at a time and forgets it when it is RECEIVED, until the run stops. It never asks COMMIT. What
// became of a record when the connection ended it can't know, and sends it again.
func (a *agent) forget(ctx context.Context) error {
	for !a.finished(ctx) {
		conn, err := a.dial(ctx)
		if err == nil {
			end := context.AfterFunc(ctx, func() { conn.Close() })
			err = a.talk(ctx, conn)
			end()
			conn.Close()
		}
		if fatal, ok := err.(unwanted); ok {
			return fatal
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// finished tells whether the run has stopped and the last record made was RECEIVED.
func (a *agent) finished(ctx context.Context) bool {
	return ctx.Err() != nil || a.stopped(ctx) && a.made.Load() == a.acked.Load()
}

// unwanted is a reply that such an agent can't go on after.
type unwanted struct {
	agent string
	code  protocol.Code
}

func (e unwanted) Error() string { return fmt.Sprintf("%s was answered %v", e.agent, e.code) }

func (a *agent) talk(ctx context.Context, conn net.Conn) error {
	in := bufio.NewReader(conn)
	reply, err := ask(conn, in, protocol.AppendAuth(nil, a.token()))
	if err != nil {
		return err
	}
	if reply.Code != protocol.CodeAck {
		return unwanted{a.name(), reply.Code}
	}
	for !a.finished(ctx) {
		n := a.acked.Load() + 1
		a.made.Store(n)
		reply, err := ask(conn, in, protocol.AppendBatch(nil, n, a.record(n)))
		switch {
		case err != nil:
			return err
		case reply.Code == protocol.CodeReceived:
			a.acked.Store(n) // forgotten
		case reply.Code == protocol.CodeQueueFull, reply.Code == protocol.CodeRetry:
			if err := pause(ctx, max(reply.Wait, time.Millisecond)); err != nil {
				return err
			}
		default:
			return unwanted{a.name(), reply.Code}
		}
	}
	return nil
}

// ask sends one request and reads its reply.
func ask(conn net.Conn, in *bufio.Reader, request []byte) (protocol.Reply, error) {
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Write(request); err != nil {
		return protocol.Reply{}, err
	}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return protocol.Reply{}, io.ErrUnexpectedEOF
	}
	return protocol.ParseReply(line)
}

func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
