package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// input is what is sent.
type input struct {
	files        []string
	lines, bytes uint64 // each line with one LF
	longest      int
	counts       map[string]uint64 // of each line
}

// readInput finds all regular files of some folders of the standard library, and looks at their lines.
func readInput(ctx context.Context, folders ...string) (input, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return input{}, fmt.Errorf("go env GOROOT: %w", err)
	}
	var in input
	for _, folder := range folders {
		top := filepath.Join(strings.TrimSpace(string(root)), "src", folder)
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				in.files = append(in.files, path)
			}
			return err
		})
		if err != nil {
			return input{}, err
		}
	}
	in.counts = map[string]uint64{}
	for _, path := range in.files {
		if err := in.count(path); err != nil {
			return input{}, err
		}
	}
	return in, nil
}

// count looks at the lines of one file.
func (in *input) count(path string) error {
	return eachLine(path, func(line []byte) error {
		in.lines++
		in.bytes += uint64(len(line)) + 1
		in.longest = max(in.longest, len(line))
		in.counts[string(line)]++
		return nil
	})
}

// eachLine yields the lines of a file without their LF; the last one may have none.
func eachLine(path string, yield func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return lines(f, yield)
}

func lines(r io.Reader, yield func([]byte) error) error {
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		if err := yield(bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
			return err
		}
	}
}

// comparison is what an output file holds.
type comparison struct {
	lines            uint64
	lost, duplicated uint64 // counted by content
	identical        bool   // byte for byte, in order
}

// compare reads the output file beside the input.
func compare(in input, out io.Reader) (comparison, error) {
	c := comparison{identical: true}
	left := in.counts
	got := bufio.NewReaderSize(out, 1<<20)
	take := func() (line []byte, err error) {
		line, err = got.ReadBytes('\n')
		if len(line) == 0 {
			return nil, err
		}
		c.lines++
		content := string(bytes.TrimSuffix(line, []byte{'\n'}))
		if left[content] == 0 {
			c.duplicated++
		} else {
			left[content]--
		}
		return line, nil
	}
	for _, path := range in.files {
		err := eachLine(path, func(want []byte) error {
			line, err := take()
			c.identical = c.identical && err == nil && bytes.Equal(line, append(want, '\n'))
			if err == io.EOF {
				err = nil
			}
			return err
		})
		if err != nil {
			return c, err
		}
	}
	for {
		line, err := take()
		if len(line) == 0 {
			if err != io.EOF {
				return c, err
			}
			break
		}
		c.identical = false
	}
	for _, n := range left {
		c.lost += n
	}
	return c, nil
}
