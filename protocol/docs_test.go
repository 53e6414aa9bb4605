package protocol_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// conversations yields the lines of a document's conversations, C: and S: in front.
func conversations(t *testing.T, lang string) []string {
	text, err := os.ReadFile("../docs/" + lang + "/protocol.md")
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "C: ") || strings.HasPrefix(line, "S: ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// The conversations in the documents are true to the protocol: each request is one, and its reply one that it can get.
func TestDocumentedConversations(t *testing.T) {
	lines := conversations(t, "en")
	require.Equal(t, lines, conversations(t, "zh"))
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
