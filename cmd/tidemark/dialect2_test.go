package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/config"
)

// sends2 sends files in dialect 2, in this process.
func (h *home) sends2(buffer string, files ...string) (summary map[string]float64, log string, err error) {
	var out, errs bytes.Buffer
	p := &program{in: strings.NewReader(""), out: &out, err: &errs, signals: make(chan os.Signal)}
	err = p.send(&config.Send{
		To: h.server.Address, Collector: "a", Token: "tok-A", Dialect: 2, Batch: 100, Window: 512, Buffer: buffer, JSON: true,
		RetryMin: time.Millisecond, RetryMax: time.Second, Files: files,
	})
	require.NoError(h.t, json.Unmarshal(out.Bytes(), &summary))
	return summary, errs.String(), err
}

// In dialect 2 lines go in batches; a lost buffer, or none, goes on behind what the server has.
func TestSendDialect2(t *testing.T) {
	h := newHome(t)
	var text strings.Builder
	for i := range 2345 {
		fmt.Fprintf(&text, "line %d\r\n", i)
	}
	file := h.write("one", text.String())
	summary, _, err := h.sends2(h.path("buffer"), file)
	require.NoError(t, err)
	require.Equal(t, 2345.0, summary["acknowledged"])
	require.Equal(t, 0.0, summary["resent"])
	require.Equal(t, text.String(), h.output())

	for i, buffer := range []string{h.path("buffer"), h.path("another"), "none", "none"} {
		_, _, err := h.sends2(buffer, h.write("more", fmt.Sprintf("more %d\n", i)))
		require.NoError(t, err)
		fmt.Fprintf(&text, "more %d\n", i)
		require.Equal(t, text.String(), h.output())
	}
	_, log, err := h.sends2(h.path("buffer"), h.write("last", "last\n"))
	require.NoError(t, err)
	require.Contains(t, log, "RETIRED", "other buffers came meanwhile")
	require.Equal(t, text.String()+"last\n", h.output())
}
