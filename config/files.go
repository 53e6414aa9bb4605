package config

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
)

// SecretKeySize is the length of the packet key in bytes.
const SecretKeySize = 32

// ReadTokens reads the file of --token-file of tidemarkd: one NAME=TOKEN a line. Blank lines and lines that begin with
// # are passed over. Each token is there once; a collector may have several. The error is a *UsageError.
func ReadTokens(path string) ([]Token, error) {
	text, err := readOption("token-file", path)
	if err != nil {
		return nil, err
	}
	var tokens []Token
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		t, ok := parseToken(line)
		if !ok || !t.valid() || seen[t.Secret] {
			return nil, &UsageError{Option: "token-file", Value: path,
				Problem: fmt.Sprintf("line %d: must be NAME=TOKEN, each token once", number)}
		}
		if len(t.Secret) > maxToken {
			return nil, &UsageError{Option: "token-file", Value: path,
				Problem: fmt.Sprintf("line %d: the token must be %s", number, shortToken)}
		}
		tokens, seen[t.Secret] = append(tokens, t), true
	}
	if len(tokens) == 0 {
		return nil, &UsageError{Option: "token-file", Value: path, Problem: "must hold at least one NAME=TOKEN"}
	}
	return tokens, nil
}

// ReadToken reads the file of --token-file of `tidemark send`: one token and perhaps a line ending. The error is a
// *UsageError.
func ReadToken(path string) (string, error) {
	text, err := readOption("token-file", path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if !isToken(token) {
		return "", &UsageError{Option: "token-file", Value: path, Problem: "must hold one token on one line"}
	}
	if len(token) > maxToken {
		return "", &UsageError{Option: "token-file", Value: path, Problem: "the token must be " + shortToken}
	}
	return token, nil
}

// ReadSecretKey reads the file of --secret-key-file: base64 of exactly SecretKeySize bytes, white space around it does
// not count. The error is a *UsageError.
func ReadSecretKey(path string) ([]byte, error) {
	text, err := readOption("secret-key-file", path)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSpace(text)
	key, err := base64.StdEncoding.Strict().DecodeString(string(text))
	if err != nil || len(key) != SecretKeySize || bytes.ContainsAny(text, "\r\n") { // which the decoder passes over
		return nil, &UsageError{Option: "secret-key-file", Value: path, Problem: "must hold base64 of exactly 32 bytes"}
	}
	return key, nil
}

func readOption(option, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &UsageError{Option: option, Value: path, Problem: "cannot be read: " + err.Error()}
	}
	return text, nil
}
