// Graphgen turns TLC's output of a StreamGraph config into a graph file for package model.
//
//	java -cp tla2tools.jar tlc2.TLC -workers 1 -config C.cfg StreamGraph.tla | graphgen -spec docs/spec -out model/testdata C
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/tidemark/tidemark/model"
)

func main() {
	spec := flag.String("spec", "docs/spec", "directory of the specification")
	out := flag.String("out", "model/testdata", "directory to write CONFIG.graph.gz to")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: graphgen [-spec DIR] [-out DIR] CONFIG < output of TLC")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdin, *spec, *out, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "graphgen:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, spec, out, config string) error {
	g := &model.Graph{}
	cfg, err := addFiles(g, spec, config)
	if err != nil {
		return err
	}
	var constants []string
	for _, m := range constantLine.FindAllSubmatch(cfg, -1) {
		constants = append(constants, string(m[1]))
	}
	if g.Constants, err = model.ParseConstants(constants); err != nil {
		return fmt.Errorf("%s.cfg: %w", config, err)
	}
	if err := build(g, in); err != nil {
		return fmt.Errorf("%s: %w", config, err)
	}
	path := filepath.Join(out, config+".graph.gz")
	size, err := write(g, path)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d states, %d edges, %d streams, %d images, %d steps; %d bytes in %s\n", config,
		len(g.States), g.Edges(), len(g.Streams), len(g.Images), len(g.Steps), size, path)
	return nil
}

var constantLine = regexp.MustCompile(`(?m)^\s+(\w+ = .+?)\s*$`)

// addFiles notes the sums of what the graph is made from and returns the config.
func addFiles(g *model.Graph, spec, config string) (cfg []byte, err error) {
	for _, name := range []string{"Stream.tla", "StreamGraph.tla", config + ".cfg"} {
		if cfg, err = os.ReadFile(filepath.Join(spec, name)); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(cfg)
		g.Files = append(g.Files, model.File{Name: name, Sum: hex.EncodeToString(sum[:])})
	}
	return cfg, nil
}

// write replaces the file only when all of it could be written.
func write(g *model.Graph, path string) (size int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "*.tmp")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	if err := g.Encode(f); err != nil {
		return 0, err
	}
	if size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	if err := f.Chmod(0o644); err != nil {
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	return size, os.Rename(f.Name(), path)
}
