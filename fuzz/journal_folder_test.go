package fuzz

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// folder is the files of a journal's folder by their names, without the lock.
type folder map[string][]byte

func segmentName(first uint64) string { return fmt.Sprintf("journal.%019d", first) }

// put makes a folder anew, with these files only.
func (f folder) put(t testing.TB, dir string) {
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Mkdir(dir, 0o700))
	for name, data := range f {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
}

func takeFolder(t testing.TB, dir string) folder {
	f := folder{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() != "lock" {
			f[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
		}
	}
	return f
}

func (f folder) size() (n int) {
	for _, data := range f {
		n += len(data)
	}
	return n
}
