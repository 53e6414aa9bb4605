package fuzz

import (
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/config"
)

// FuzzOptionsFile: any bytes in the file of --config give options that are valid, or an error that names an option,
// which is --config when the file is no mapping of options. How much memory YAML takes is not bounded here: the file is the operator's own.
func FuzzOptionsFile(f *testing.F) {
	for _, text := range []string{
		"", "queue-capacity: 16\n", "listen: 127.0.0.1:0\nsink: file:/tmp/x?framing=length\nreceived: durable\n",
		"token: [a=one, b=two]\nfirst:\n  - a=5\n", "# nothing\n---\n{}\n", "queue-capacity: [1, 2]\n", "unknown: 1\n",
		"a: &a [x]\nb: *a\n", "history: 0x10\nahead: 1e3\n", "sink: !!binary aGVsbG8=\n", "\"\": |\n  x\n", "\xff\x00", "- 1\n", "? {a: b}\n: c\n",
		"max-line-bytes: 1GiB\ntotal-bytes: 2GiB\nqueue-bytes: 1.5\n", "received-wait: 1s\nidle-timeout: -5s\npprof: yes\n", "pprof: 2\n",
	} {
		f.Add([]byte(text))
	}
	path := filepath.Join(memoryDir(f), "options.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		options, err := config.ParseServer([]string{"--config", path}, io.Discard, "fuzz")
		if err == nil {
			require.NoError(t, options.Validate())
			return
		}
		var usage *config.UsageError
		require.ErrorAs(t, err, &usage)
		require.Contains(t, err.Error(), "--")
	})
}

// FuzzOptionFiles: any bytes in the files that hold tokens and keys are taken as what is allowed there, or refused with
// the name of the option and the file.
func FuzzOptionFiles(f *testing.F) {
	for _, text := range []string{
		"", "a=one\nb=two\n", "# names\n\na=one\r\n", "a=\n", "=x\n", "a=same\nb=same\n", "tok-A\n", "one\ntwo\n", "x\r\r\n",
		base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", config.SecretKeySize))) + "\n", "AAAA", "\xff\x00",
		"a=" + strings.Repeat("x", 5000),
	} {
		f.Add([]byte(text))
	}
	path := filepath.Join(memoryDir(f), "secrets")
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		tokens, err := config.ReadTokens(path)
		if checkFileError(t, err, path) {
			require.NotEmpty(t, tokens)
			for _, token := range tokens {
				require.Contains(t, string(text), token.Collector+"="+token.Secret)
			}
		}
		token, err := config.ReadToken(path)
		if checkFileError(t, err, path) {
			require.Equal(t, strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), token)
		}
		key, err := config.ReadSecretKey(path)
		if checkFileError(t, err, path) {
			require.Len(t, key, config.SecretKeySize)
			written := strings.NewReplacer("\r", "", "\n", "").Replace(strings.TrimSpace(string(text))) // the decoder passes over these
			require.Equal(t, written, base64.StdEncoding.EncodeToString(key))
		}
	})
}

// checkFileError tells whether the file was read.
func checkFileError(t testing.TB, err error, path string) bool {
	t.Helper()
	if err == nil {
		return true
	}
	var usage *config.UsageError
	require.ErrorAs(t, err, &usage)
	require.Equal(t, path, usage.Value)
	require.NotEmpty(t, usage.Option)
	return false
}
