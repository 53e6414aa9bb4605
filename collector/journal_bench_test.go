package collector

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkJournalAppend makes batches durable from many callers at once.
func BenchmarkJournalAppend(b *testing.B) {
	for _, callers := range []int{1, 16, 256} {
		for _, records := range []int{1, 100} {
			b.Run(fmt.Sprintf("callers=%d/records=%d", callers, records), func(b *testing.B) {
				j, err := OpenJournal(b.TempDir(), JournalOptions{})
				require.NoError(b, err)
				defer j.Close()
				texts := make([]string, records)
				for i := range texts {
					texts[i] = string(make([]byte, 256))
				}
				batch := []Batch{batchOf(texts...)}
				b.ResetTimer()
				var all sync.WaitGroup
				for caller := range callers {
					all.Go(func() {
						for range (b.N + caller) / callers {
							id, err := j.Append(b.Context(), nil, batch)
							if err != nil {
								b.Error(err)
								return
							}
							if id%1000 == 0 {
								j.Acknowledge(id - 1)
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}
