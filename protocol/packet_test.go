package protocol_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark/tidemark/protocol"
)

var compressions = []protocol.Compression{
	protocol.CompressionNone, protocol.CompressionGzip, protocol.CompressionZlib, protocol.CompressionDeflate,
}

func decoder(t testing.TB, key []byte, limit int) *protocol.PacketDecoder {
	d, err := protocol.NewPacketDecoder(key, limit)
	require.NoError(t, err)
	return d
}

func pack(t testing.TB, c protocol.Compression, key, record []byte) []byte {
	e, err := protocol.NewPacketEncoder(c, key, nil)
	require.NoError(t, err)
	packet, err := e.Append(nil, record)
	require.NoError(t, err)
	return packet
}

// wrap makes a packet of bytes that are packed already.
func wrap(c protocol.Compression, packed []byte) []byte {
	return fmt.Appendf(nil, `{"version":1,"compression":"%s","payload":"%s"}`, c, base64.StdEncoding.EncodeToString(packed))
}

// deflater packs as a collector of another make would.
func deflater(t testing.TB, c protocol.Compression, to io.Writer) interface {
	io.WriteCloser
	Flush() error
} {
	switch c {
	case protocol.CompressionGzip:
		return gzip.NewWriter(to)
	case protocol.CompressionZlib:
		return zlib.NewWriter(to)
	default:
		w, err := flate.NewWriter(to, flate.BestCompression)
		require.NoError(t, err)
		return w
	}
}

func deflate(t testing.TB, c protocol.Compression, record []byte) []byte {
	var b bytes.Buffer
	w := deflater(t, c, &b)
	_, err := w.Write(record)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestPacketsComeBack(t *testing.T) {
	key := bytes.Repeat([]byte{7}, protocol.PacketKeySize)
	for _, record := range [][]byte{{}, []byte("a"), bytes.Repeat([]byte("abc\n\x00\xff"), 5000)} {
		for _, c := range compressions {
			for _, k := range [][]byte{nil, key} {
				packet := pack(t, c, k, record)
				d := decoder(t, k, max(1, len(record)))
				for range 3 { // the second and third time with tables from the first
					got, err := d.Decode([]byte("x"), packet)
					require.NoError(t, err)
					require.Equal(t, append([]byte("x"), record...), got)
				}
			}
		}
	}
}

func TestPacketB35Limits(t *testing.T) {
	for _, c := range compressions {
		for _, size := range []int{1, 511, 512, 513, 65536} {
			packet := pack(t, c, nil, bytes.Repeat([]byte("r"), size))
			_, err := decoder(t, nil, size).Decode(nil, packet)
			require.NoError(t, err, "%s: exactly the limit", c)
			if size > 1 {
				_, err = decoder(t, nil, size-1).Decode(nil, packet)
				require.ErrorIs(t, err, protocol.ErrDecodeFailed, "%s: one over the limit", c)
				require.ErrorContains(t, err, fmt.Sprintf("record too long at byte 0; allowed: at most %d bytes", size-1))
			}
		}
	}
}

// bomb packs 64 MiB of zeros into about 64 KiB. After the first, equal pieces pack to equal bytes, which are repeated.
func bomb(t testing.TB, c protocol.Compression) []byte {
	var b bytes.Buffer
	w := deflater(t, c, &b)
	piece := make([]byte, 1<<20)
	var lengths [2]int
	for i := range lengths {
		_, err := w.Write(piece)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		lengths[i] = b.Len()
	}
	packed := b.Bytes()
	return append(packed[:lengths[0]:lengths[0]], bytes.Repeat(packed[lengths[0]:lengths[1]], 63)...)
}

// A packet that expands to a thousand times its size is refused within bounded memory.
func TestPacketB35Bomb(t *testing.T) {
	const limit = 64 << 10
	for _, c := range compressions[1:] {
		packet := wrap(c, bomb(t, c))
		require.Less(t, len(packet), 2*limit)
		d := decoder(t, nil, limit)
		_, err := d.Decode(nil, wrap(c, deflate(t, c, nil))) // makes the tables
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = d.Decode(nil, packet)
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, "record too long", "%s", c)
		// The packet is held a few times over (JSON, base64, bytes), the record once, grown by doubling.
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*len(packet)+4*limit), "%s", c)
	}
}

func TestPacketB35Damage(t *testing.T) {
	record := bytes.Repeat([]byte("some text, "), 200)
	for _, c := range compressions[1:] {
		packed := deflate(t, c, record)
		d := decoder(t, nil, 1<<20)
		refused := func(what string, packed []byte) {
			got, err := d.Decode([]byte("before"), wrap(c, packed))
			require.ErrorIs(t, err, protocol.ErrDecodeFailed, "%s %s", c, what)
			require.Equal(t, "before", string(got), "%s %s", c, what)
		}
		for i := range 10 {
			refused(fmt.Sprintf("cut at %d tenths", i), packed[:len(packed)*i/10])
		}
		refused("without its last byte", packed[:len(packed)-1])
		for n := 1; n <= 9; n++ {
			refused(fmt.Sprintf("with %d bytes behind it", n), append(bytes.Clone(packed), make([]byte, n)...))
		}
		refused("twice", append(bytes.Clone(packed), packed...))
		if c != protocol.CompressionDeflate { // which has no checksum
			bad := bytes.Clone(packed)
			bad[len(bad)-2] ^= 1
			refused("with a bad checksum", bad)
		}
		for _, other := range compressions[1:] {
			if other != c {
				_, err := d.Decode(nil, wrap(other, packed))
				require.ErrorIs(t, err, protocol.ErrDecodeFailed, "%s called %s", c, other)
			}
		}
		got, err := d.Decode(nil, wrap(c, packed)) // damage before it leaves nothing behind
		require.NoError(t, err)
		require.Equal(t, record, got)
	}
}

// Compression is undone once: a packed record inside is data.
func TestPacketB35Nested(t *testing.T) {
	inner := deflate(t, protocol.CompressionGzip, []byte("deep"))
	got, err := decoder(t, nil, 1000).Decode(nil, wrap(protocol.CompressionGzip, deflate(t, protocol.CompressionGzip, inner)))
	require.NoError(t, err)
	require.Equal(t, inner, got)
}

func TestPacketDecoderIsShared(t *testing.T) {
	key := bytes.Repeat([]byte{7}, protocol.PacketKeySize)
	d := decoder(t, key, 10000)
	var wg sync.WaitGroup
	for i := range 8 {
		record := bytes.Repeat([]byte{byte(i)}, 1000+i)
		packet := pack(t, compressions[i%4], key, record)
		wg.Go(func() {
			for range 50 {
				got, err := d.Decode(nil, packet)
				if err != nil || !bytes.Equal(record, got) {
					t.Errorf("record %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestPacketTampered(t *testing.T) {
	key := bytes.Repeat([]byte{7}, protocol.PacketKeySize)
	iv := base64.StdEncoding.EncodeToString(make([]byte, 12))
	e, err := protocol.NewPacketEncoder(protocol.CompressionNone, key, bytes.NewReader(make([]byte, 12)))
	require.NoError(t, err)
	packet, err := e.Append(nil, []byte("hello"))
	require.NoError(t, err)
	require.Contains(t, string(packet), `"iv":"`+iv+`"`)
	_, err = decoder(t, bytes.Repeat([]byte{8}, protocol.PacketKeySize), 100).Decode(nil, packet)
	require.EqualError(t, err, "DECRYPT_FAILED: packet fails its tag at byte 0; allowed: AES-256-GCM with the key of this ingress")
	_, err = decoder(t, nil, 100).Decode(nil, packet)
	require.EqualError(t, err, "DECRYPT_FAILED: packet is encrypted and no key is configured at byte 0; allowed: AES-256-GCM with the key of this ingress")
}

func TestPacketConfiguration(t *testing.T) {
	for _, n := range []int{0, 16, 31, 33} {
		_, err := protocol.NewPacketDecoder(make([]byte, n), 1)
		require.EqualError(t, err, fmt.Sprintf("protocol: packet key has %d bytes, must have 32", n))
		_, err = protocol.NewPacketEncoder(protocol.CompressionNone, make([]byte, n), nil)
		require.Error(t, err)
	}
	for _, limit := range []int{-1, 0, math.MaxInt32 + 1} {
		_, err := protocol.NewPacketDecoder(nil, limit)
		require.ErrorContains(t, err, "must be from 1 to 2147483647 bytes")
	}
	_, err := protocol.NewPacketEncoder("ZSTD", nil, nil)
	require.EqualError(t, err, `protocol: compression "ZSTD", must be NONE, GZIP, ZLIB or DEFLATE`)
}

func TestPacketEncoderWithoutRandomness(t *testing.T) {
	broken := errors.New("no entropy")
	e, err := protocol.NewPacketEncoder(protocol.CompressionNone, make([]byte, protocol.PacketKeySize), iotest.ErrReader(broken))
	require.NoError(t, err)
	got, err := e.Append([]byte("before"), []byte("hello"))
	require.ErrorIs(t, err, broken)
	require.Equal(t, "before", string(got))
}
