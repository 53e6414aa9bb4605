package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// say sends lines on a connection that stays, and waits for as many replies.
func (h *home) say(text string) {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.server.Address)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, err = conn.Write([]byte(text))
	require.NoError(h.t, err)
	buf := make([]byte, 1)
	for n := strings.Count(text, "\n"); n > 0; {
		_, err := conn.Read(buf)
		require.NoError(h.t, err)
		if buf[0] == '\n' {
			n--
		}
	}
}

func TestOperate(t *testing.T) {
	h := newHome(t)
	h.say("__AUTH__:tok-A\n__BATCH__:1:x\n__BATCH__:5:y\n__BATCH__:7:z\n")
	until(t, "number 1 is committed", func() bool {
		out := h.command("streams", "--http", h.server.HTTP, "--json").ends(t, 0).out.Bytes()
		var list []struct {
			Collector string
			Committed uint64
		}
		require.NoError(t, json.Unmarshal(out, &list))
		return len(list) == 1 && list[0].Collector == "a" && list[0].Committed == 1
	})
	table := h.command("streams", "--http", h.server.HTTP).ends(t, 0).out.String()
	require.Regexp(t, `(?m)^COLLECTOR +CONNECTED`, table)
	require.Regexp(t, `(?m)^a +yes +1 +7 +.*2 to 4, 6 .*collector owes 2 to 4`, table)

	inspected := h.command("inspect", h.path("data")).ends(t, 0).out.String()
	require.Contains(t, inspected, "checkpoint")
	require.Contains(t, inspected, `"a"`)

	none := h.command("forget", "a", "--http", h.server.HTTP, "--below", "2", "--yes").ends(t, 0)
	require.Contains(t, none.out.String(), "nothing was given up")
	forgot := h.command("forget", "a", "--http", h.server.HTTP, "--below", "6", "--yes").ends(t, 0)
	require.Contains(t, forgot.out.String(), "given up: 2 to 4")
	require.Regexp(t, `a +yes +5 +7 .*collector owes 6`, h.command("streams", "--http", h.server.HTTP).ends(t, 0).out.String())

	require.Contains(t, h.command("resume", "a", "--http", h.server.HTTP).ends(t, 0).out.String(), "resumed")
	require.Contains(t, h.command("resume", "b", "--http", h.server.HTTP).ends(t, 1).err.String(), "unknown collector")
	require.Contains(t, h.command("forget", "b", "--http", h.server.HTTP, "--below", "6", "--yes").ends(t, 1).err.String(), "unknown collector")

	require.NoError(t, h.server.Stop())
	require.Contains(t, h.command("streams", "--http", h.server.HTTP).ends(t, 1).err.String(), "no answer")
	require.Contains(t, h.command("inspect", h.path("none")).ends(t, 1).err.String(), "none")
}

// A person is asked, and only yes is yes.
func TestForgetAsks(t *testing.T) {
	h := newHome(t)
	h.say("__AUTH__:tok-A\n__BATCH__:3:x\n")
	ask := func(answer string) (code int, said string) {
		var out strings.Builder
		p := &program{in: strings.NewReader(answer), out: &out, err: &out, interactive: true}
		code = p.run([]string{"forget", "a", "--http", h.server.HTTP, "--below", "3"})
		return code, out.String()
	}
	for _, answer := range []string{"no\n", "", "y\n"} {
		code, said := ask(answer)
		require.Equal(t, 1, code)
		require.Contains(t, said, "lost then: 1 to 2")
		require.Contains(t, said, "nothing was given up")
	}
	code, said := ask("yes\n")
	require.Zero(t, code)
	require.Contains(t, said, "given up: 1 to 2")
	require.Contains(t, h.command("forget", "a", "--http", h.server.HTTP, "--below", "3", "--yes").ends(t, 0).out.String(), "nothing is missing")
}

func TestRanges(t *testing.T) {
	require.Equal(t, "-", ranges(nil))
	require.Equal(t, "1, 3 to 5", ranges([][2]uint64{{1, 1}, {3, 5}}))
	require.Equal(t, "1, 3, 5, 7, 9, and 2 ranges more", ranges([][2]uint64{{1, 1}, {3, 3}, {5, 5}, {7, 7}, {9, 9}, {11, 11}, {13, 13}}))
}
