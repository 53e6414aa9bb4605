package protocol_test

import (
	"testing"

	"github.com/tidemark/tidemark/protocol"
)

// One operation is one batch of one record of 256 bytes, of which the records are checked too.
func BenchmarkAppendAndParseBatch2(b *testing.B) {
	const together = 64
	payload := protocol.AppendRecord(nil, benchPayload)
	var p protocol.Parser2
	var buf []byte
	id := uint64(1 << 40)
	b.SetBytes(int64(len(protocol.AppendBatch2(nil, id, 1, payload))))
	b.ReportAllocs()
	for done := 0; done < b.N; done += together {
		buf = buf[:0]
		for range together {
			id++
			buf = protocol.AppendBatch2(buf, id, 1, payload)
		}
		for at := 0; at < len(buf); {
			req, n, err := p.Next(buf[at:])
			if err != nil || req.ID > id || protocol.CheckRecords(req.Payload, req.Records) != nil {
				b.Fatal("not what was appended")
			}
			at += n
		}
	}
}

func BenchmarkParseBatch2(b *testing.B) {
	var p protocol.Parser2
	buf := protocol.AppendBatch2(nil, 123456789, 1, protocol.AppendRecord(nil, benchPayload))
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := p.Next(buf); err != nil || n != len(buf) {
			b.Fatal("not what was appended")
		}
	}
}

func BenchmarkReply2(b *testing.B) {
	var p protocol.ReplyParser2
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = protocol.AppendReply2(buf[:0], protocol.Reply2{Code: protocol.CodeAck, Watermark: 123456789})
		if r, n, err := p.Next(buf); err != nil || n != len(buf) || r.Watermark != 123456789 {
			b.Fatal("not what was appended")
		}
	}
}
