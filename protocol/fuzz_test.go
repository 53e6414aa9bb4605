package protocol_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// FuzzParser: no panic, the same events however the bytes are split, and requests that come back from the appenders.
func FuzzParser(f *testing.F) {
	for _, v := range loadVectors(f).Requests {
		f.Add(unhex(f, v.Input), uint16(v.MaxLine), uint16(7), uint16(20))
	}
	f.Fuzz(func(t *testing.T, input []byte, maxLine, first, second uint16) {
		limit := int(maxLine) // 0 is the default limit
		a := min(int(first), len(input))
		b := min(a+int(second), len(input))
		whole := read(t, limit, input)
		require.Equal(t, whole, read(t, limit, input[:a], input[a:b], input[b:]))
		if len(input) < 1<<10 {
			require.Equal(t, whole, read(t, limit, single(input)...))
		}
		for _, e := range whole {
			if e.Refused == 0 {
				require.Equal(t, []event{e}, read(t, 0, appendEvent(nil, e)))
			}
		}
	})
}

func appendEvent(dst []byte, e event) []byte {
	switch e.Command {
	case protocol.CommandAuth:
		return protocol.AppendAuth(dst, e.Token)
	case protocol.CommandBatch:
		return protocol.AppendBatch(dst, e.ID, []byte(e.Payload))
	default:
		return protocol.AppendCommit(dst, e.ID)
	}
}

// FuzzReply: no panic, and what is read is written back byte for byte.
func FuzzReply(f *testing.F) {
	for _, v := range loadVectors(f).Replies {
		f.Add([]byte(v.Input))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := protocol.ParseReply(line)
		if err != nil {
			require.ErrorIs(t, err, protocol.ErrReply)
			require.Zero(t, r)
			return
		}
		text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		require.Equal(t, string(text)+"\n", string(protocol.AppendReply(nil, r)))
	})
}

// FuzzRecords: no panic, and a payload that is read is written back byte for byte.
func FuzzRecords(f *testing.F) {
	for _, v := range loadVectors(f).Records {
		f.Add(unhex(f, v.Payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
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

// FuzzPacket: no panic, no record over the limit, and a record that is read comes back from each kind of packet.
func FuzzPacket(f *testing.F) {
	const limit = 1 << 10
	key := bytes.Repeat([]byte{7}, protocol.PacketKeySize)
	for _, v := range loadVectors(f).Packets {
		f.Add([]byte(v.Packet))
	}
	for _, c := range compressions {
		f.Add(pack(f, c, key, []byte("hello")))
	}
	d := decoder(f, key, limit)
	f.Fuzz(func(t *testing.T, packet []byte) {
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
