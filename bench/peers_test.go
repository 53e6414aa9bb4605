package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadReply(t *testing.T) {
	for text, want := range map[string]string{
		"+OK\r\n": "", ":7\r\n": "", "$3\r\na\nb\r\n": "a\nb|", "*2\r\n*1\r\n$1\r\nx\r\n$0\r\n\r\n": "x||",
	} {
		in, got := bufio.NewReader(strings.NewReader(text+"+NEXT\r\n")), ""
		require.NoError(t, readReply(in, func(s []byte) { got += string(s) + "|" }))
		require.Equal(t, want, got)
		rest, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, "+NEXT\r\n", string(rest))
	}
	for text, want := range map[string]string{
		"-ERR no\r\n": "ERR no", "*1\r\n-ERR inner\r\n": "ERR inner", "$-1\r\n": "unreadable", "what\r\n": "unreadable",
		"\n": "unreadable", "$5\r\nab": "EOF", "": "EOF",
	} {
		require.ErrorContains(t, readReply(bufio.NewReader(strings.NewReader(text)), func([]byte) {}), want, text)
	}
}

func TestRELPAnswer(t *testing.T) {
	for text, want := range map[string]string{
		"2 rsp 6 200 OK\n": "", "2 rsp 13 200 OK\noffers\n": "", "3 rsp 6 200 OK\n": "where that of 2", "2 rsp 6 500 no\n": "500 no",
		"0 serverclose 0\n": "where that of 2", "2 rsp x y\n": "invalid syntax", "2 rsp 6 200": "EOF", "2 r": "EOF",
	} {
		c := &relpConn{in: bufio.NewReader(strings.NewReader(text))}
		err := c.answer(2)
		if want == "" {
			require.NoError(t, err, text)
			require.Zero(t, c.in.Buffered(), text)
		} else {
			require.ErrorContains(t, err, want, text)
		}
	}
	require.Equal(t, "7 syslog 2 ab\n", string(appendFrame(nil, 7, "syslog", []byte("ab"))))
	require.Equal(t, uint64(1), nextTransaction(999_999_999))
	require.Equal(t, uint64(999_999_999), nextTransaction(999_999_998))
}

// TestAppendLogCutsTornLine opens a file that a killed server left with half a line.
func TestAppendLogCutsTornLine(t *testing.T) {
	for text, want := range map[string]string{"": "", "a\nb\n": "a\nb\n", "a\nbbbbb": "a\n", "aaaaa": ""} {
		path := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		l, err := openAppendLog(path, false)
		require.NoError(t, err)
		_, err = l.file.WriteString("c\n")
		require.NoError(t, err)
		require.NoError(t, l.file.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want+"c\n", string(got))
	}
}
