package protocol_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

type vectors struct {
	Requests []struct {
		Name    string `json:"name"`
		MaxLine int    `json:"max_line"`
		Input   string `json:"input_hex"`
		Want    []struct {
			Command    string  `json:"command"`
			ID         string  `json:"id"`
			TokenHex   *string `json:"token_hex"`
			PayloadHex *string `json:"payload_hex"`
			Refused    string  `json:"refused"`
		} `json:"want"`
	} `json:"requests"`
	Replies []struct {
		Name  string `json:"name"`
		Input string `json:"input"`
		Want  *struct {
			Code      string `json:"code"`
			Watermark string `json:"watermark"`
			WaitMS    string `json:"wait_ms"`
		} `json:"want"`
		Refused bool `json:"refused"`
	} `json:"replies"`
	Records []struct {
		Name    string   `json:"name"`
		Payload string   `json:"payload_hex"`
		Want    []string `json:"records_hex"`
		Refused bool     `json:"refused"`
	} `json:"records"`
	Packets []struct {
		Name    string  `json:"name"`
		Key     string  `json:"key_hex"`
		Max     int     `json:"max_record"`
		Packet  string  `json:"packet"`
		Record  *string `json:"record"`
		Refused string  `json:"refused"`
	} `json:"packets"`
	Requests2 []headerVector `json:"requests2"`
	Replies2  []headerVector `json:"replies2"`
}

func loadVectors(t testing.TB) vectors {
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var v vectors
	require.NoError(t, json.Unmarshal(text, &v))
	require.NotEmpty(t, v.Requests)
	require.NotEmpty(t, v.Replies)
	require.NotEmpty(t, v.Records)
	require.NotEmpty(t, v.Packets)
	return v
}

func unhex(t testing.TB, text string) []byte {
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	return b
}

// number reads the numbers of the vectors, which are text; "" is 0.
func number(t testing.TB, text string) uint64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

func TestRequestVectors(t *testing.T) {
	for _, v := range loadVectors(t).Requests {
		t.Run(v.Name, func(t *testing.T) {
			got := readEverySplit(t, v.MaxLine, unhex(t, v.Input))
			require.Len(t, got, len(v.Want))
			for i, w := range v.Want {
				require.Equal(t, number(t, w.ID), got[i].ID)
				if w.Refused != "" {
					require.Equal(t, w.Refused, got[i].Refused.String())
				} else {
					require.Zero(t, got[i].Refused)
				}
				if w.Command == "" {
					w.Command = "NONE"
				}
				require.Equal(t, w.Command, got[i].Command.String())
				require.Equal(t, w.TokenHex != nil, got[i].HasToken)
				require.Equal(t, w.PayloadHex != nil, got[i].HasPayload)
				if w.TokenHex != nil {
					require.Equal(t, string(unhex(t, *w.TokenHex)), got[i].Token)
				}
				if w.PayloadHex != nil {
					require.Equal(t, string(unhex(t, *w.PayloadHex)), got[i].Payload)
				}
			}
		})
	}
}

func TestReplyVectors(t *testing.T) {
	for _, v := range loadVectors(t).Replies {
		t.Run(v.Name, func(t *testing.T) {
			got, err := protocol.ParseReply([]byte(v.Input))
			if v.Refused {
				require.ErrorIs(t, err, protocol.ErrReply)
				return
			}
			require.NoError(t, err)
			require.Equal(t, v.Want.Code, got.Code.String())
			require.Equal(t, number(t, v.Want.Watermark), got.Watermark)
			require.Equal(t, time.Duration(number(t, v.Want.WaitMS))*time.Millisecond, got.Wait)
		})
	}
}

func TestRecordVectors(t *testing.T) {
	for _, v := range loadVectors(t).Records {
		t.Run(v.Name, func(t *testing.T) {
			got := []string{}
			var failed error
			for record, err := range protocol.Records(unhex(t, v.Payload)) {
				if failed = err; err == nil {
					got = append(got, hex.EncodeToString(record))
				}
			}
			if v.Refused {
				require.ErrorIs(t, failed, protocol.ErrDecodeFailed)
				return
			}
			require.NoError(t, failed)
			require.Equal(t, v.Want, got)
		})
	}
}

func TestPacketVectors(t *testing.T) {
	sentinels := map[string]error{"DECODE_FAILED": protocol.ErrDecodeFailed, "DECRYPT_FAILED": protocol.ErrDecryptFailed}
	for _, v := range loadVectors(t).Packets {
		t.Run(v.Name, func(t *testing.T) {
			var key []byte
			if v.Key != "" {
				key = unhex(t, v.Key)
			}
			d, err := protocol.NewPacketDecoder(key, v.Max)
			require.NoError(t, err)
			got, err := d.Decode([]byte("before "), []byte(v.Packet))
			if v.Refused != "" {
				require.ErrorIs(t, err, sentinels[v.Refused])
				require.Equal(t, "before ", string(got))
				return
			}
			require.NoError(t, err)
			require.Equal(t, "before "+*v.Record, string(got))
		})
	}
}
