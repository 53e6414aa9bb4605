package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/config"
)

func TestSizeAsText(t *testing.T) {
	for size, want := range map[config.Size]string{
		0: "0B", 1: "1B", 1023: "1023B", 1024: "1KiB", 1536: "1536B", 64 << 20: "64MiB", 1 << 40: "1TiB", 1 << 50: "1024TiB",
	} {
		require.Equal(t, want, size.String())
		if size >= 1024 && size <= 1<<40 {
			require.Equal(t, size, must(t)(parse(t, "--total-bytes=1TiB", "--queue-bytes="+want)).QueueBytes)
		}
	}
}

func TestSinkAsText(t *testing.T) {
	for text, want := range map[string]string{
		"file:out": "file:out", "file:/a b/c:d?framing=lf": "file:/a b/c:d", "file:x?framing=length": "file:x?framing=length", "stdout:": "stdout:",
	} {
		require.Equal(t, want, must(t)(parse(t, "--sink="+text)).Sink.String())
	}
}

func optionFile(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestReadTokens(t *testing.T) {
	tokens, err := config.ReadTokens(optionFile(t, "# tokens\r\n\n  \na=x=y\r\nb= spaced \n"))
	require.NoError(t, err)
	require.Equal(t, []config.Token{{"a", "x=y"}, {"b", " spaced "}}, tokens)
	for text, want := range map[string]string{
		"":              "must hold at least one NAME=TOKEN",
		"a=x\nSECRET\n": "line 2: must be NAME=TOKEN, each token once",
		"a=x\n\nb=x\n":  "line 3: must be NAME=TOKEN, each token once",
		"a b=SECRET\n":  "line 1: must be NAME=TOKEN, each token once",
	} {
		_, err := config.ReadTokens(optionFile(t, text))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "SECRET")
	}
	_, err = config.ReadTokens(t.TempDir())
	require.ErrorContains(t, err, "--token-file")
	require.ErrorContains(t, err, "cannot be read")
}

func TestReadToken(t *testing.T) {
	for _, ending := range []string{"", "\n", "\r\n"} {
		token, err := config.ReadToken(optionFile(t, "to:k=en "+ending))
		require.NoError(t, err)
		require.Equal(t, "to:k=en ", token)
	}
	for _, text := range []string{"", "\n", "a\nb\n", "a\n\n"} {
		_, err := config.ReadToken(optionFile(t, text))
		require.ErrorContains(t, err, "must hold one token on one line")
	}
	_, err := config.ReadToken(filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "cannot be read")
}

func TestReadSecretKey(t *testing.T) {
	const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	got, err := config.ReadSecretKey(optionFile(t, " "+key+"\n"))
	require.NoError(t, err)
	require.Len(t, got, config.SecretKeySize)
	require.Equal(t, byte(31), got[31])
	for _, text := range []string{"", key[:40], strings.Replace(key, "8=", "8", 1), key + key, "AAAA", key[:20] + "\n" + key[20:], strings.Replace(key, "Hh8=", "Hh9=", 1)} {
		_, err := config.ReadSecretKey(optionFile(t, text))
		require.ErrorContains(t, err, "must hold base64 of exactly 32 bytes")
	}
	_, err = config.ReadSecretKey(filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "cannot be read")
}
