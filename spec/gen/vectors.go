package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Vectors is spec/vectors.yaml, and as JSON the test vectors. Numbers are text there: many JSON readers are exact only
// up to 2^53.
type Vectors struct {
	About    string          `yaml:"-" json:"about"`
	Requests []*LineVector   `yaml:"requests" json:"requests"`
	Replies  []*ReplyVector  `yaml:"replies" json:"replies"`
	Records  []*RecordVector `yaml:"records" json:"records"`
	Packets  []*PacketVector `yaml:"packets" json:"packets"`

	Requests2 []*HeaderVector `yaml:"requests2" json:"requests2"`
	Replies2  []*HeaderVector `yaml:"replies2" json:"replies2"`
}

// A LineVector is bytes of a connection and the requests and refusals they give.
type LineVector struct {
	Name    string        `yaml:"name" json:"name"`
	MaxLine int           `yaml:"max_line" json:"max_line,omitempty"`
	Input   string        `yaml:"input" json:"-"`
	Hex     string        `yaml:"hex" json:"input_hex"`
	Shown   string        `yaml:"-" json:"shown"`
	Want    []*LineWanted `yaml:"want" json:"want"`
}

// A LineWanted is a request, or a refusal.
type LineWanted struct {
	Command    string  `yaml:"command" json:"command,omitempty"`
	ID         string  `yaml:"id" json:"id,omitempty"`
	Token      *string `yaml:"token" json:"-"`
	TokenHex   *string `yaml:"-" json:"token_hex,omitempty"`
	Payload    *string `yaml:"payload" json:"-"`
	PayloadHex *string `yaml:"payload_hex" json:"payload_hex,omitempty"`
	Refused    string  `yaml:"refused" json:"refused,omitempty"`
}

// A ReplyVector is one reply, or what is none.
type ReplyVector struct {
	Name    string       `yaml:"name" json:"name"`
	Input   string       `yaml:"input" json:"input"`
	Want    *ReplyWanted `yaml:"want" json:"want,omitempty"`
	Refused bool         `yaml:"refused" json:"refused,omitempty"`
}

// A ReplyWanted is a reply and its fields.
type ReplyWanted struct {
	Code      string `yaml:"code" json:"code"`
	Watermark string `yaml:"watermark" json:"watermark,omitempty"`
	WaitMS    string `yaml:"wait_ms" json:"wait_ms,omitempty"`
}

// A RecordVector is a batch's payload and its records in hex.
type RecordVector struct {
	Name    string   `yaml:"name" json:"name"`
	Hex     string   `yaml:"hex" json:"payload_hex"`
	Want    []string `yaml:"want" json:"records_hex"`
	Refused bool     `yaml:"refused" json:"refused,omitempty"`
}

// A PacketVector is a payload of packet mode and its record.
type PacketVector struct {
	Name    string  `yaml:"name" json:"name"`
	Key     string  `yaml:"key" json:"key_hex,omitempty"`
	Max     int     `yaml:"max" json:"max_record"`
	Input   string  `yaml:"input" json:"packet"`
	Want    *string `yaml:"want" json:"record,omitempty"`
	Refused string  `yaml:"refused" json:"refused,omitempty"`
}

func generateVectors(root fs.FS) ([]output, error) {
	p, err := loadProtocol(root)
	if err != nil {
		return nil, err
	}
	v := &Vectors{About: "Generated from spec/vectors.yaml and spec/protocol.yaml; do not edit. " +
		"requests and replies are of dialect 1, requests2 and replies2 of dialect 2. Each input gives exactly what is wanted, " +
		"however it is split; max_line or max_batch 0 or absent is the default limit."}
	if err := load(root, "spec/vectors.yaml", v); err != nil {
		return nil, err
	}
	for _, m := range p.Dialects[0].Requests {
		v.Requests = append(v.Requests, numberVectors(p, m)...)
	}
	for _, d := range p.Dialects[1:] {
		headerVectors(p, d, v)
	}
	if err := v.encode(); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, err
	}
	return []output{{"protocol/testdata/vectors.json", append(text, '\n')}}, nil
}

// encode fills what the JSON holds from what the definitions hold.
func (v *Vectors) encode() (err error) {
	for _, r := range v.Requests {
		if r.Hex, r.Shown, err = encode(r.Name, r.Hex, r.Input); err != nil {
			return err
		}
		for _, w := range r.Want {
			if w.Token != nil {
				w.TokenHex = ptr(hex.EncodeToString([]byte(*w.Token)))
			}
			if w.Payload != nil {
				w.PayloadHex = ptr(hex.EncodeToString([]byte(*w.Payload)))
			}
		}
	}
	for _, r := range slices.Concat(v.Requests2, v.Replies2) {
		if r.Hex, r.Shown, err = encode(r.Name, r.Hex, r.Input); err != nil {
			return err
		}
		for _, w := range r.Want {
			if w.Payload != "" {
				w.PayloadHex = hex.EncodeToString([]byte(w.Payload))
			}
		}
	}
	return nil
}

// encode yields the bytes that are given in hex or as text, in hex and as people read them.
func encode(name, inHex, text string) (string, string, error) {
	raw, err := hex.DecodeString(inHex)
	if err != nil {
		return "", "", fmt.Errorf("spec/vectors.yaml: %s: %w", name, err)
	}
	raw = append(raw, text...)
	return hex.EncodeToString(raw), strconv.QuoteToASCII(string(raw)), nil
}

func ptr[T any](v T) *T { return &v }

// numberVectors tries each form of a number in the first number field of a request.
func numberVectors(p *Protocol, m *Message) []*LineVector {
	i := slices.IndexFunc(m.Fields, func(f *Field) bool { return f.Type == "number" })
	if i < 0 {
		return nil
	}
	f := m.Fields[i]
	high := p.Limits[slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Name == f.Max })].Value
	good := []uint64{f.Min, f.Min + 1, 9, 10, 1<<53 + 1, high / 10 * 10, high - 1, high}
	bad := []string{"", "0", "-1", "+1", "01", "00", " 1", "1 ", "\t1", "1e3", "0x10", "1_000", "1,000", "1.0", "\uff11", "abc",
		strconv.FormatUint(high+1, 10), strconv.FormatUint(high+3, 10), "18446744073709551615", "18446744073709551617",
		"99999999999999999999", strings.Repeat("1", 400)}
	var vectors []*LineVector
	for _, n := range good {
		id := strconv.FormatUint(n, 10)
		w := &LineWanted{Command: m.Command, ID: id}
		if !f.Last {
			w.Payload = ptr("x")
		}
		vectors = append(vectors, numberVector(m, f, id, w))
	}
	for _, id := range bad {
		vectors = append(vectors, numberVector(m, f, id, &LineWanted{Refused: "INVALID_PARAM", Command: m.Command}))
	}
	return vectors
}

func numberVector(m *Message, f *Field, id string, w *LineWanted) *LineVector {
	line := m.Keyword + ":" + id
	if !f.Last {
		line += ":x"
	}
	return &LineVector{Name: fmt.Sprintf("%s with number %.24q", m.Command, id), Input: line + "\n", Want: []*LineWanted{w}}
}
