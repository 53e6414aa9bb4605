package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/config"
)

// unread yields the options of a program that its source never names as a field.
func unread(t *testing.T, program reflect.Type, folder string) []string {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	read := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				read[s.Sel.Name] = true
			}
			return true
		})
	}
	var missing []string
	for field := range program.Fields() {
		if !read[field.Name] && field.Tag.Get("name") != "config" { // which this package reads itself
			missing = append(missing, field.Name)
		}
	}
	return missing
}

// An option that a program offers and never reads is a lie. Each program that is here reads all of its options.
func TestEveryOptionIsRead(t *testing.T) {
	for folder, program := range map[string]reflect.Type{
		"../cmd/tidemarkd": reflect.TypeFor[config.Server](),
		"../cmd/tidemark":  reflect.TypeFor[config.Send](),
	} {
		if _, err := os.Stat(folder); err == nil {
			assert.Empty(t, unread(t, program, folder), folder)
		}
	}
}

// The check above finds an option that is not read: of these two, the program below reads one.
func TestUnreadOptionsAreFound(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte("package main\nfunc f() { use(options.Window) }\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main_test.go"), []byte("package main\nfunc g() { use(options.Follow) }\n"), 0o600))
	missing := unread(t, reflect.TypeFor[config.Send](), folder)
	require.NotContains(t, missing, "Window")
	require.Contains(t, missing, "Follow")
	require.Len(t, missing, reflect.TypeFor[config.Send]().NumField()-1)
}
