package main

import (
	"bufio"
	"bytes"
	"net"
	"strings"

	"github.com/tidemark/tidemark/protocol"
)

// push is the cheapest collector that obeys the protocol: it keeps a window of batches on their way,
// asks COMMIT once a window, sends again what is refused, and ends when everything is acknowledged.
func push(address, token string, records int) {
	conn, err := net.Dial("tcp", address)
	check(err)
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	payload := []byte(strings.Repeat("x", *size))
	out := protocol.AppendAuth(nil, token)
	var next, acked uint64 = 1, 0
	total := uint64(records)
	asked, unanswered := uint64(0), 1 // of the AUTH
	refused := false
	for acked < total {
		for next <= total && next <= acked+uint64(*window) && len(out) < 256<<10 {
			out = protocol.AppendBatch(out, next, payload)
			next++
			unanswered++
		}
		if asked == 0 {
			asked = next - 1
			out = protocol.AppendCommit(out, asked)
			unanswered++
		}
		_, err := conn.Write(out)
		check(err)
		out = out[:0]
		for ; unanswered > 0; unanswered-- {
			line, err := in.ReadSlice('\n')
			check(err)
			if bytes.Equal(line, []byte("RECEIVED\n")) {
				continue
			}
			r, err := protocol.ParseReply(line)
			check(err)
			switch {
			case r.Code == protocol.CodeAck && r.Watermark > 0:
				acked, asked = r.Watermark, 0
			case r.Code == protocol.CodePending:
				asked = 0
			case r.Code == protocol.CodeQueueFull || r.Code == protocol.CodeRetry || r.Code == protocol.CodeResend:
				refused, asked = true, 0
			}
		}
		if refused {
			next, refused = acked+1, false
		}
	}
}
