package protocol_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

func TestRecordsComeBack(t *testing.T) {
	records := [][]byte{{}, []byte("a"), bytes.Repeat([]byte("b"), 127), bytes.Repeat([]byte("c"), 128), bytes.Repeat([]byte("\n"), 20000)}
	var payload []byte
	for _, r := range records {
		payload = protocol.AppendRecord(payload, r)
	}
	var got [][]byte
	for r, err := range protocol.Records(payload) {
		require.NoError(t, err)
		require.Equal(t, len(r), cap(r), "appending to a record must not reach the next")
		got = append(got, r)
	}
	require.Equal(t, records, got)
	require.NoError(t, protocol.CheckRecords(payload, len(records)))

	for range protocol.Records(payload) {
		break // stopping early is allowed
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if protocol.CheckRecords(payload, len(records)) != nil {
			panic("not what was appended")
		}
	}))
}

func TestCheckRecords(t *testing.T) {
	two := protocol.AppendRecord(protocol.AppendRecord(nil, []byte("a")), []byte("b"))
	require.NoError(t, protocol.CheckRecords(two, 2))
	for _, n := range []int{-1, 0, 1, 3} {
		require.ErrorIs(t, protocol.CheckRecords(two, n), protocol.ErrDecodeFailed, "%d", n)
	}
	require.ErrorIs(t, protocol.CheckRecords(nil, 0), protocol.ErrDecodeFailed)
	require.EqualError(t, protocol.CheckRecords(two, 3), "DECODE_FAILED: 2 records in the payload at byte 4; allowed: 3 records")
	require.EqualError(t, protocol.CheckRecords(append(two, 9, 'x'), 3),
		"DECODE_FAILED: record is longer than the rest of the payload at byte 4; allowed: at most 1 bytes")
	require.EqualError(t, protocol.CheckRecords(append(two, 0x80, 0), 3),
		"DECODE_FAILED: record length is not a minimal uvarint at byte 4; allowed: a minimal uvarint")
}
