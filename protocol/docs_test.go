package protocol_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// conversations yields the lines of a document's conversations in a dialect, C: and S: in front.
func conversations(t *testing.T, lang string, dialect int) []string {
	text, err := os.ReadFile("../docs/" + lang + "/protocol.md")
	require.NoError(t, err)
	heading := map[string]string{"en": "\n## Dialect 2", "zh": "\n## 方言 2"}[lang]
	first, second, found := strings.Cut(string(text), heading)
	require.True(t, found, "%s has no heading for dialect 2", lang)
	var lines []string
	for line := range strings.Lines([]string{first, second}[dialect-1]) {
		if strings.HasPrefix(line, "C: ") || strings.HasPrefix(line, "S: ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// The conversations in the documents are true to the protocol: each request is one, and its reply one that it can get.
func TestDocumentedConversations(t *testing.T) {
	lines := conversations(t, "en", 1)
	require.Equal(t, lines, conversations(t, "zh", 1))
	require.Greater(t, len(lines), 20)
	allowed := map[[2]string]bool{}
	for m := range protocol.Messages(1) {
		allowed[[2]string{m.Command.String(), m.Code.String()}] = true
	}
	for i := 0; i < len(lines); i += 2 {
		request := read(t, 0, []byte(strings.TrimPrefix(lines[i], "C: ")+"\n"))
		require.Len(t, request, 1, lines[i])
		require.Zero(t, request[0].Refused, lines[i])
		reply, err := protocol.ParseReply([]byte(strings.TrimPrefix(lines[i+1], "S: ")))
		require.NoError(t, err, lines[i+1])
		pair := [2]string{request[0].Command.String(), reply.Code.String()}
		require.True(t, allowed[pair], "%v", pair)
		require.Equal(t, pair == [2]string{"COMMIT", "ACK"}, reply.Watermark != 0, lines[i+1])
	}
}

// In dialect 2 the line below the header of a batch is its payload. Each other line is one message of its side, and
// what a NACK says of a payload is true.
func TestDocumentedConversationsOfDialect2(t *testing.T) {
	lines := conversations(t, "en", 2)
	require.Equal(t, lines, conversations(t, "zh", 2))
	require.Greater(t, len(lines), 20)
	sides := map[string]next{"C: ": requests2(t, 0), "S: ": replies2(t)}
	seen := map[string]int{}
	var undecodable []uint64
	for i := 0; i < len(lines); i++ {
		side, text := lines[i][:3], lines[i][3:]
		if strings.HasPrefix(text, "BATCH ") {
			i++
			payload, err := strconv.Unquote(`"` + lines[i][3:] + `"`)
			require.NoError(t, err, lines[i])
			text += "\r\n" + payload
		}
		got := read2(t, sides[side], []byte(text+"\r\n"))
		require.Len(t, got, 1, text)
		require.False(t, got[0].Refused, "%s: %v", text, &got[0].Bad)
		req, reply := got[0].Request, got[0].Reply
		seen[side+word(req.Command, reply.Code)]++
		if req.Command == protocol.CommandBatch && protocol.CheckRecords([]byte(got[0].Payload), req.Records) != nil {
			undecodable = append(undecodable, req.ID)
		}
		if reply.Code == protocol.CodeNack {
			require.Equal(t, protocol.CodeDecodeFailed, reply.Reason)
			require.Contains(t, undecodable, reply.ID)
		}
		require.True(t, reply.Code != protocol.CodeError || reply.Reason != 0, text)
	}
	require.Len(t, undecodable, seen["S: NACK"])
	for m := range protocol.Messages(2) {
		side := map[protocol.Side]string{protocol.Collector: "C: ", protocol.Ingress: "S: "}[m.From]
		said := word(m.Command, m.Code)
		if said != "PING" && said != "PONG" { // one of them each way is enough
			require.NotZero(t, seen[side+said], "no conversation has %s%s", side, said)
		}
	}
}
