package file

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/server/internal/disk/disktest"
	"github.com/tidemark/tidemark/server/sink"
	"github.com/tidemark/tidemark/server/sink/sinktest"
)

func TestContract(t *testing.T) {
	for name, framing := range map[string]Framing{"lf": LF, "length": Length} {
		t.Run(name, func(t *testing.T) {
			t.Run("disk", func(t *testing.T) {
				sinktest.Run(t, func(t *testing.T) sinktest.Harness { return onDisk(t, framing) })
			})
			t.Run("memory", func(t *testing.T) {
				sinktest.Run(t, func(t *testing.T) sinktest.Harness { return inMemory(framing) })
			})
		})
	}
}

func onDisk(t *testing.T, framing Framing) sinktest.Harness {
	path := filepath.Join(t.TempDir(), "out")
	return sinktest.Harness{
		Open: func() (sink.Sink, error) { return Open(Options{Path: path, Framing: framing}) },
		Read: func() ([]string, error) {
			b, err := os.ReadFile(path)
			return records(b, framing), err
		},
	}
}

// inMemory can run out of room and stall, too.
func inMemory(framing Framing) sinktest.Harness {
	d := disktest.New()
	return sinktest.Harness{
		Open:  func() (sink.Sink, error) { return Open(Options{Path: "/out", Framing: framing, fs: d}) },
		Read:  func() ([]string, error) { return records(d.Files()["/out"], framing), nil },
		Fill:  func() func() { return fill(d, 100) },
		Stall: func() (<-chan struct{}, func()) { return stall(d) },
	}
}

// fill leaves room for so many bytes.
func fill(d *disktest.Disk, room int) (free func()) {
	full := true
	d.Hook = func(c disktest.Call) (int, error) {
		if c.Op != disktest.Write || !full || c.Bytes <= room {
			return 0, nil
		}
		n := room
		room = 10 // what cutting back frees
		return n, syscall.ENOSPC
	}
	return func() { full = false }
}

// stall holds up the next sync.
func stall(d *disktest.Disk) (<-chan struct{}, func()) {
	stalled, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.Hook = func(c disktest.Call) (int, error) {
		if c.Op == disktest.Sync {
			once.Do(func() { close(stalled) })
			<-released
		}
		return 0, nil
	}
	return stalled, func() { close(released) }
}

func records(b []byte, framing Framing) (list []string) {
	if framing == LF {
		lines := strings.SplitAfter(string(b), "\n")
		for _, line := range lines[:len(lines)-1] {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
		if rest := lines[len(lines)-1]; rest != "" {
			list = append(list, "torn: "+rest)
		}
		return list
	}
	for len(b) > 0 {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return append(list, "torn: "+string(b))
		}
		list = append(list, string(b[n:n+int(length)]))
		b = b[n+int(length):]
	}
	return list
}
