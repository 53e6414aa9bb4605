package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
)

// findings are what the output file holds.
type findings struct {
	records                      uint64
	lost, duplicated, disordered uint64
}

// check reads the output file: each record must be there once, with all its bytes, in the order of its agent.
func (l *load) check() (findings, error) {
	f, err := os.Open(l.output())
	if err != nil {
		return findings{}, err
	}
	defer f.Close()
	return l.checkLines(bufio.NewReaderSize(f, 1<<20))
}

func (l *load) checkLines(in *bufio.Reader) (findings, error) {
	var found findings
	seen := make([][]bool, len(l.agents))
	highest := make([]uint64, len(l.agents))
	for i, a := range l.agents {
		seen[i] = make([]bool, a.made.Load()+1)
	}
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			break
		}
		if err != nil {
			return found, fmt.Errorf("%s ends in half a line: %w", l.output(), err)
		}
		found.records++
		line = line[:len(line)-1]
		var index int
		var n uint64
		if _, err := fmt.Fscanf(bytes.NewReader(line), "c%d %d ", &index, &n); err != nil ||
			index < 0 || index >= len(l.agents) || n < 1 || n >= uint64(len(seen[index])) ||
			!bytes.Equal(line, l.agents[index].record(n)) {
			return found, fmt.Errorf("record %d of %s was never sent: %.80q", found.records, l.output(), line)
		}
		switch {
		case seen[index][n]:
			found.duplicated++
		case n < highest[index]:
			found.disordered++
		}
		seen[index][n], highest[index] = true, max(highest[index], n)
	}
	for _, numbers := range seen {
		for _, there := range numbers[1:] {
			if !there {
				found.lost++
			}
		}
	}
	return found, nil
}
