package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// lieSize is how many bytes that it has acknowledged a lying log keeps in memory.
const lieSize = 64 << 10

// An appendLog appends lines to a file, with one write and one fdatasync for all that came while the last was on its way.
type appendLog struct {
	file  *os.File
	lying bool // acknowledges at once and never writes the last bytes: to show that the harness finds out

	mu     sync.Mutex
	filled sync.Cond
	text   []byte
	done   []func()
}

// openAppendLog takes a file up again: a last line without its end is cut.
func openAppendLog(path string, lying bool) (*appendLog, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	end, err := endOfLines(file)
	if err == nil {
		err = file.Truncate(end)
	}
	if err == nil {
		_, err = file.Seek(end, io.SeekStart)
	}
	l := &appendLog{file: file, lying: lying}
	l.filled.L = &l.mu
	return l, err
}

// endOfLines is the position behind the last line feed. No line is longer than what is looked at.
func endOfLines(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	tail := make([]byte, min(info.Size(), 1<<20))
	start := info.Size() - int64(len(tail))
	if _, err := file.ReadAt(tail, start); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for len(tail) > 0 && tail[len(tail)-1] != '\n' {
		tail = tail[:len(tail)-1]
	}
	return start + int64(len(tail)), nil
}

// add takes lines, and calls done when they are durable.
func (l *appendLog) add(done func(), lines ...[]byte) {
	l.mu.Lock()
	for _, line := range lines {
		l.text = append(l.text, line...)
	}
	if l.lying {
		done()
	} else {
		l.done = append(l.done, done)
	}
	l.mu.Unlock()
	l.filled.Signal()
}

// run writes until something fails.
func (l *appendLog) run() error {
	var text []byte
	var done []func()
	keep := 0
	if l.lying {
		keep = lieSize
	}
	for {
		l.mu.Lock()
		for len(l.text) <= keep {
			l.filled.Wait()
		}
		end := len(l.text) - keep
		text, l.text = l.text[:end], append(text[:0], l.text[end:]...)
		done, l.done = l.done, done[:0]
		l.mu.Unlock()
		if _, err := l.file.Write(text); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(l.file.Fd())); err != nil {
			return err
		}
		for _, f := range done {
			f()
		}
	}
}

// readLines visits each line of a file, without its line feed; an incomplete last one too.
func readLines(path string, visit func([]byte)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if err == nil {
			visit(line[:len(line)-1])
			continue
		}
		if len(line) > 0 {
			visit(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}
