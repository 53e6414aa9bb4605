package protocol

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
)

// A PacketEncoder packs records as payloads of packet mode. Any number of goroutines may share it, if its random
// source can be shared.
type PacketEncoder struct {
	compression Compression
	aead        cipher.AEAD // nil: not encrypted
	random      io.Reader
}

// NewPacketEncoder makes an encoder that compresses each record, then encrypts it if key is not nil. Each packet takes
// a fresh 12 byte iv from random (nil: the system's source), so that no history of restarts or restored disks uses
// one twice; use a key for at most 2^32 packets.
func NewPacketEncoder(c Compression, key []byte, random io.Reader) (*PacketEncoder, error) {
	if _, err := newDeflater(io.Discard, c); err != nil {
		return nil, err
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	if random == nil {
		random = rand.Reader
	}
	return &PacketEncoder{c, aead, random}, nil
}

// Append appends the packet of a record to dst. The only error is that of the random source; dst then comes back as
// it was.
func (e *PacketEncoder) Append(dst, record []byte) ([]byte, error) {
	packed, iv := compress(record, e.compression), []byte(nil)
	encryption := encryptionNone
	if e.aead != nil {
		encryption = encryptionAESGCM
		iv = make([]byte, e.aead.NonceSize())
		if _, err := io.ReadFull(e.random, iv); err != nil {
			return dst, fmt.Errorf("protocol: no iv: %w", err)
		}
		packed = e.aead.Seal(nil, iv, packed, nil)
	}
	dst = append(dst, `{"version":1,"compression":"`...)
	dst = append(dst, e.compression...)
	dst = append(dst, `","encryption":"`...)
	dst = append(dst, encryption...)
	if iv != nil {
		dst = append(dst, `","iv":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, iv)
	}
	dst = append(dst, `","payload":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, packed)
	return append(dst, `"}`...), nil
}

func compress(record []byte, c Compression) []byte {
	if c == CompressionNone {
		return record
	}
	var b bytes.Buffer
	w, _ := newDeflater(&b, c) // fails for a level that there is not
	w.Write(record)            // into memory, which takes it
	w.Close()
	return b.Bytes()
}

// newDeflater makes the writer of a compression; nil for none.
func newDeflater(w io.Writer, c Compression) (io.WriteCloser, error) {
	switch c {
	case CompressionNone:
		return nil, nil
	case CompressionGzip:
		return gzip.NewWriter(w), nil
	case CompressionZlib:
		return zlib.NewWriter(w), nil
	case CompressionDeflate:
		return flate.NewWriter(w, flate.DefaultCompression)
	}
	return nil, fmt.Errorf("protocol: compression %q, must be NONE, GZIP, ZLIB or DEFLATE", string(c))
}
