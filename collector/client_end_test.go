package collector

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Done says that the client has ended, and no earlier.
func TestClientDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		c := startClient(t, p.options())
		require.NoError(t, send(c, []byte("a")))
		go p.next().serve()
		require.NoError(t, c.Flush(t.Context()))
		synctest.Wait()
		select {
		case <-c.Done():
			require.Fail(t, "it has not ended")
		default:
		}
		require.NoError(t, c.Close())
		<-c.Done()
	})
}

// A buffer that dialect 2 filled is not sent in dialect 1, unless each batch is one line.
func TestClientCantCarryBatches(t *testing.T) {
	for _, b := range []Batch{batchOf("a", "b"), batchOf("a\nb")} {
		p := newPeer(t)
		o := p.options()
		o.Journal = openJournal(t, t.TempDir())
		_, err := o.Journal.Append(t.Context(), nil, []Batch{batchOf("fits"), b})
		require.NoError(t, err)
		c := startClient(t, o)
		p.next()
		require.ErrorContains(t, c.Flush(t.Context()), "batch 2 of the buffer")
		require.Equal(t, uint64(0), c.Status().Acknowledged)
	}
}

func TestTokenLength(t *testing.T) {
	o := Options{Dialect: 1, Address: "127.0.0.1:1", Token: string(make([]byte, 4087))}
	require.NoError(t, o.complete())
	for _, token := range []string{"", "a\nb", o.Token + "x"} {
		o.Token = token
		require.ErrorContains(t, o.complete(), "allowed are 1 to 4087 without an LF")
	}
}
