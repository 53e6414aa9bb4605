package protocol_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/tidemark/tidemark/protocol"
)

// The payload of the design's aim: 256 bytes.
var benchPayload = bytes.Repeat([]byte("0123456789abcdef"), 16)

// One operation is one batch: a collector appends them to a buffer, the ingress parses what it has read of one.
func BenchmarkAppendAndParseBatch(b *testing.B) {
	const together = 64
	var p protocol.Parser
	var buf []byte
	id := uint64(1 << 40)
	b.SetBytes(int64(len(protocol.AppendBatch(nil, id, benchPayload))))
	b.ReportAllocs()
	for done := 0; done < b.N; done += together {
		buf = buf[:0]
		for range together {
			id++
			buf = protocol.AppendBatch(buf, id, benchPayload)
		}
		for at := 0; at < len(buf); {
			req, n, err := p.Next(buf[at:])
			if err != nil || req.ID > id {
				b.Fatal("not what was appended")
			}
			at += n
		}
	}
}

func BenchmarkAppendBatch(b *testing.B) {
	buf := protocol.AppendBatch(nil, 123456789, benchPayload)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = protocol.AppendBatch(buf[:0], 123456789, benchPayload)
	}
}

func BenchmarkParseBatch(b *testing.B) {
	var p protocol.Parser
	buf := protocol.AppendBatch(nil, 123456789, benchPayload)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := p.Next(buf); err != nil || n != len(buf) {
			b.Fatal("not what was appended")
		}
	}
}

func BenchmarkAppendReply(b *testing.B) {
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf = protocol.AppendReply(buf[:0], protocol.Reply{Code: protocol.CodeAck, Watermark: 123456789})
		buf = protocol.AppendReply(buf, protocol.Reply{Code: protocol.CodeQueueFull, Wait: time.Second})
	}
}

func BenchmarkRecords(b *testing.B) {
	var payload []byte
	for range 100 {
		payload = protocol.AppendRecord(payload, benchPayload)
	}
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if err := protocol.CheckRecords(payload, 100); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodePacket(b *testing.B) {
	key := bytes.Repeat([]byte{7}, protocol.PacketKeySize)
	packet := pack(b, protocol.CompressionGzip, key, benchPayload)
	d := decoder(b, key, 1<<20)
	b.SetBytes(int64(len(benchPayload)))
	b.ReportAllocs()
	var record []byte
	for b.Loop() {
		var err error
		if record, err = d.Decode(record[:0], packet); err != nil {
			b.Fatal(err)
		}
	}
}
