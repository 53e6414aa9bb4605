// Command gen writes everything that follows from the definitions in spec/: the generated Go of protocol and config,
// the shared test vectors, and the tables in docs/. It reads the definitions, never its own output, so that a broken
// output cannot keep it from running. Its output is sorted and carries no time, so that equal definitions give equal bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . -root ../..

func main() {
	root := flag.String("root", ".", "the folder of the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// write generates every output and stores those that differ.
func write(root string) error {
	outputs, err := generate(os.DirFS(root))
	if err != nil {
		return err
	}
	for _, o := range outputs {
		path := filepath.Join(root, filepath.FromSlash(o.path))
		if old, err := os.ReadFile(path); err == nil && string(old) == string(o.text) {
			continue
		}
		if err := os.WriteFile(path, o.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
