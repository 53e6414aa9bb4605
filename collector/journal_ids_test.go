package collector

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// Appends at the same time do not pass the end of the ids together: one gets the last id, the others an error, and what
// was written can be read again.
func TestJournalLastIDs(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		old := frame1([]byte(journalMagic1), 'A', protocol.MaxID-2, "") // the only way to get there in a test
		require.NoError(t, os.WriteFile(filepath.Join(dir, journalName1), old, 0o600))
		j, err := OpenJournal(dir, JournalOptions{})
		require.NoError(t, err)
		batch := Batch{Records: 1, Payload: protocol.AppendRecord(nil, []byte("x"))}
		errs := make([]error, 4)
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() { _, errs[i] = j.Append(context.Background(), nil, []Batch{batch}) })
		}
		group.Wait()
		require.NoError(t, j.Close())
		taken := 0
		for _, err := range errs {
			if err == nil {
				taken++
			} else {
				require.ErrorContains(t, err, "no ids are left")
			}
		}
		require.Equal(t, 1, taken)
		j, err = OpenJournal(dir, JournalOptions{})
		require.NoError(t, err)
		require.NoError(t, j.Close())
	}
}
