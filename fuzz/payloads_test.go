package fuzz

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// FuzzRecords: a payload that is read is written back byte for byte. Records alias it: only a refusal costs anything.
func FuzzRecords(f *testing.F) {
	for _, v := range loadVectors(f).Records {
		f.Add(unhex(f, v.Payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		bounded(t, len(payload), 0, 1<<10, func() { protocol.CheckRecords(payload, 1) })
		var again []byte
		count := 0
		for record, err := range protocol.Records(payload) {
			if err != nil {
				require.ErrorIs(t, err, protocol.ErrDecodeFailed)
				require.Nil(t, record)
				require.Error(t, protocol.CheckRecords(payload, count+1))
				return
			}
			again = protocol.AppendRecord(again, record)
			count++
		}
		require.Equal(t, string(payload), string(again))
		require.Equal(t, count > 0, protocol.CheckRecords(payload, count) == nil)
	})
}

var compressions = []protocol.Compression{
	protocol.CompressionNone, protocol.CompressionGzip, protocol.CompressionZlib, protocol.CompressionDeflate,
}

func pack(t testing.TB, c protocol.Compression, key, record []byte) []byte {
	e, err := protocol.NewPacketEncoder(c, key, nil)
	require.NoError(t, err)
	packet, err := e.Append(nil, record)
	require.NoError(t, err)
	return packet
}

// FuzzPacket: no record over the limit, and a record that is read comes back from each kind of packet.
//
// Allocated are the parts of the JSON object, the text and the bytes of its base64, and at most about twice the limit
// for the record: the dearest byte of JSON is in an object of many short keys. The fixed part is the decompressors, of
// 50 KiB in all, which are kept for the next packet and may be collected in between.
func FuzzPacket(f *testing.F) {
	const limit = 1 << 10
	key := bytes.Repeat([]byte{7}, protocol.PacketKeySize)
	for _, v := range loadVectors(f).Packets {
		f.Add([]byte(v.Packet))
	}
	for _, c := range compressions {
		f.Add(pack(f, c, key, []byte("hello")))
		f.Add(pack(f, c, nil, bytes.Repeat([]byte("bomb"), 1<<16)))
	}
	d, err := protocol.NewPacketDecoder(key, limit)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, packet []byte) {
		bounded(t, len(packet), 128, 64<<10+4*limit, func() { d.Decode(nil, packet) })
		record, err := d.Decode([]byte("before"), packet)
		if err != nil {
			require.Equal(t, "before", string(record))
			return
		}
		record = record[len("before"):]
		require.LessOrEqual(t, len(record), limit)
		for _, c := range compressions {
			again, err := d.Decode(nil, pack(t, c, key, record))
			require.NoError(t, err)
			require.True(t, bytes.Equal(record, again))
		}
	})
}
