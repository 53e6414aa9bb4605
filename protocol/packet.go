package protocol

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Compression names how the record of a packet is packed.
type Compression string

// The compressions of packet mode. DEFLATE is the raw format, without the header of ZLIB.
const (
	CompressionNone    Compression = "NONE"
	CompressionGzip    Compression = "GZIP"
	CompressionZlib    Compression = "ZLIB"
	CompressionDeflate Compression = "DEFLATE"
)

const (
	encryptionNone   = "NONE"
	encryptionAESGCM = "AES_GCM"

	// PacketKeySize is the length of a packet key in bytes: AES-256.
	PacketKeySize = 32
)

// A PacketDecoder unpacks payloads of packet mode: a JSON object that holds one record, perhaps compressed and
// encrypted. Any number of goroutines may share it.
type PacketDecoder struct {
	aead      cipher.AEAD // nil: no key
	max       int
	inflaters sync.Pool
}

// NewPacketDecoder makes a decoder for records of at most max bytes, 1 to 2^31-1. Key is PacketKeySize bytes, or nil:
// then encrypted packets are refused with CodeDecryptFailed. With a key, packets that are not encrypted are taken too.
func NewPacketDecoder(key []byte, max int) (*PacketDecoder, error) {
	if max < 1 || max > math.MaxInt32 {
		return nil, fmt.Errorf("protocol: record limit is %d, must be from 1 to %d bytes", max, math.MaxInt32)
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	return &PacketDecoder{aead: aead, max: max, inflaters: sync.Pool{New: func() any { return new(inflater) }}}, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	if key == nil {
		return nil, nil
	}
	if len(key) != PacketKeySize {
		return nil, fmt.Errorf("protocol: packet key has %d bytes, must have %d", len(key), PacketKeySize)
	}
	block, _ := aes.NewCipher(key) // fails for other lengths only
	return cipher.NewGCM(block)
}

// Decode appends the record of a packet to dst. Bytes behind the compressed stream, a second gzip member among them,
// are refused. The error is an *Error with CodeDecryptFailed (no key, another key, a changed packet) or with
// CodeDecodeFailed (all else, a record over the limit included); dst comes back as it was, and its spare capacity,
// never more than about twice the limit, may have been written to.
func (d *PacketDecoder) Decode(dst, payload []byte) ([]byte, error) {
	p, bad := readPacket(payload)
	if bad != nil {
		return dst, bad
	}
	packed := p.payload
	if p.encrypted {
		if packed, bad = d.decrypt(p); bad != nil {
			return dst, bad
		}
	}
	if p.compression == CompressionNone {
		if len(packed) > d.max {
			return dst, d.tooLong()
		}
		return append(dst, packed...), nil
	}
	f := d.inflaters.Get().(*inflater)
	defer d.inflaters.Put(f)
	record, err := f.inflate(dst, p.compression, packed, d.max)
	switch {
	case errors.Is(err, errTooLong):
		return dst, d.tooLong()
	case err != nil:
		return dst, badPacket("payload does not decompress", "one whole "+string(p.compression)+" stream and nothing behind it")
	}
	return record, nil
}

func (d *PacketDecoder) decrypt(p packet) ([]byte, *Error) {
	if d.aead == nil {
		return nil, undecryptable("packet is encrypted and no key is configured")
	}
	plain, err := d.aead.Open(p.payload[:0], p.iv, p.payload, nil)
	if err != nil {
		return nil, undecryptable("packet fails its tag")
	}
	return plain, nil
}

func (d *PacketDecoder) tooLong() *Error {
	return badPacket("record too long", "at most "+strconv.Itoa(d.max)+" bytes after decompression")
}

func badPacket(message, allowed string) *Error {
	return &Error{Code: CodeDecodeFailed, Command: CommandBatch, Message: message, Allowed: allowed}
}

func undecryptable(message string) *Error {
	return &Error{Code: CodeDecryptFailed, Command: CommandBatch, Message: message, Allowed: "AES-256-GCM with the key of this ingress"}
}

// A packet is what its JSON object says.
type packet struct {
	payload, iv []byte
	compression Compression
	encrypted   bool
}

// readPacket reads the JSON object. Keys it does not know are passed over; of a key that comes twice, the last counts.
func readPacket(text []byte) (p packet, bad *Error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return p, badPacket("payload is not a JSON object", "one JSON object")
	}
	if string(fields["version"]) != "1" {
		return p, badPacket("version is missing or another", `"version":1`)
	}
	compression, ok := readWord(fields["compression"], string(CompressionNone), string(CompressionGzip),
		string(CompressionZlib), string(CompressionDeflate))
	if !ok {
		return p, badPacket("unknown compression", "NONE, GZIP, ZLIB or DEFLATE")
	}
	p.compression = Compression(compression)
	encryption, ok := readWord(fields["encryption"], encryptionNone, encryptionAESGCM)
	if !ok {
		return p, badPacket("unknown encryption", "NONE or AES_GCM")
	}
	if p.payload, ok = readBase64(fields["payload"]); !ok {
		return p, badPacket("payload is missing or no base64", "padded standard base64 without line breaks")
	}
	if p.encrypted = encryption == encryptionAESGCM; !p.encrypted {
		return p, nil
	}
	const ivSize = 12
	if p.iv, ok = readBase64(fields["iv"]); !ok || len(p.iv) != ivSize {
		return p, badPacket("iv is missing or of another size", "base64 of exactly 12 bytes")
	}
	return p, nil
}

// readWord yields one of the allowed words; the first of them when it is missing, null or blank.
func readWord(raw json.RawMessage, allowed ...string) (string, bool) {
	var word string
	if raw != nil && json.Unmarshal(raw, &word) != nil {
		return "", false
	}
	if strings.TrimSpace(word) == "" {
		return allowed[0], true
	}
	return word, slices.Contains(allowed, word)
}

// readBase64 is strict: padding is there, bits behind the last byte are zero, and no line breaks, which the standard
// decoder passes over.
func readBase64(raw json.RawMessage) ([]byte, bool) {
	var text *string
	if raw == nil || json.Unmarshal(raw, &text) != nil || text == nil || strings.ContainsAny(*text, "\r\n") {
		return nil, false
	}
	b, err := base64.StdEncoding.Strict().DecodeString(*text)
	return b, err == nil
}

// An inflater keeps the tables of the decompressors, which cost more to make than a small record to unpack.
type inflater struct {
	src         bytes.Reader
	gzip        gzip.Reader
	zlib, flate io.ReadCloser // nil until first used
}

var (
	errTooLong  = errors.New("record too long")
	errTrailing = errors.New("bytes behind the compressed stream")
)

// inflate appends the record, at most max bytes. The source is read byte by byte, so that what is left of it is
// what lies behind the compressed stream.
func (f *inflater) inflate(dst []byte, c Compression, packed []byte, max int) ([]byte, error) {
	f.src.Reset(packed)
	r, err := f.open(c)
	if err != nil {
		return dst, err
	}
	from := len(dst)
	for {
		dst = slices.Grow(dst, 1)
		room := min(cap(dst), from+max+1)
		n, err := r.Read(dst[len(dst):room])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst)-from > max:
			return dst, errTooLong
		case err == io.EOF && f.src.Len() > 0:
			return dst, errTrailing
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

func (f *inflater) open(c Compression) (r io.Reader, err error) {
	switch c {
	case CompressionGzip:
		err = f.gzip.Reset(&f.src)
		f.gzip.Multistream(false)
		return &f.gzip, err
	case CompressionZlib:
		if f.zlib == nil {
			f.zlib, err = zlib.NewReader(&f.src)
		} else {
			err = f.zlib.(zlib.Resetter).Reset(&f.src, nil)
		}
		return f.zlib, err
	default:
		if f.flate == nil {
			f.flate = flate.NewReader(&f.src)
		} else {
			err = f.flate.(flate.Resetter).Reset(&f.src, nil)
		}
		return f.flate, err
	}
}
