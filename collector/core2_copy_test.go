package collector

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

// Whatever is done to a core, a copy stays as it was.
func TestCore2Copy(t *testing.T) {
	k := newTalk2(t, 1, 6, known)
	k.connects("HELLO(1,7)", welcomes(0, 5, protocol.Range{First: 2, Last: 2}, protocol.Range{First: 4, Last: 5}))
	var fresh Core2
	fresh.CopyFrom(k.core)
	require.Equal(t, "READY 2:b", requests(t, k.core.Send(nil, k.now, 10)))
	k.core.Skip(1)
	k.takes("PING")
	require.Equal(t, "READY 2:b 4:d 5:e 6:f", requests(t, fresh.Send(nil, k.now, 1000)))
	var copied Core2
	copied.CopyFrom(k.core)
	before := copied.AppendKey(nil)
	require.Equal(t, before, k.core.AppendKey(nil))
	k.takes("RESEND 5 0")
	require.Equal(t, before, copied.AppendKey(nil))
	k.says("PONG SKIP:1 4:d 5:e 6:f")
	k.core.Skip(3)
	k.core.Skip(4)
	k.core.Bye()
	require.Equal(t, before, copied.AppendKey(nil))
	k.says("BYE")
	k.takes("PING", "ACK 3")
	k.core.Load(7, batchOf("g"))
	require.Equal(t, before, copied.AppendKey(nil))
	k.core.Disconnect()
	require.Equal(t, "PONG SKIP:1 4:d 5:e 6:f", requests(t, copied.Send(nil, k.now, 1000)))
}
