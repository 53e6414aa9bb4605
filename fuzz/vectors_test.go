package fuzz

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// vectors are the inputs of the golden vectors; what they mean is tested in package protocol.
type vectors struct {
	Requests []struct {
		MaxLine int    `json:"max_line"`
		Input   string `json:"input_hex"`
	} `json:"requests"`
	Replies []struct {
		Input string `json:"input"`
	} `json:"replies"`
	Records []struct {
		Payload string `json:"payload_hex"`
	} `json:"records"`
	Packets []struct {
		Packet string `json:"packet"`
	} `json:"packets"`
}

func loadVectors(t testing.TB) vectors {
	text, err := os.ReadFile("../protocol/testdata/vectors.json")
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
