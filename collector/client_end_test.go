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
		require.NoError(t, c.Send(t.Context(), []byte("a")))
		go p.next().serve()
		require.NoError(t, c.Wait(t.Context()))
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

func TestTokenLength(t *testing.T) {
	o := Options{Address: "127.0.0.1:1", Token: string(make([]byte, 4087))}
	require.NoError(t, o.complete())
	for _, token := range []string{"", "a\nb", o.Token + "x"} {
		o.Token = token
		require.ErrorContains(t, o.complete(), "allowed are 1 to 4087 without an LF")
	}
}
