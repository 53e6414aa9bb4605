package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A HeaderVector is bytes of one side of a dialect 2 connection and the messages and refusals they give. Nothing is wanted
// behind a refusal that closes.
type HeaderVector struct {
	Name     string          `yaml:"name" json:"name"`
	MaxBatch int             `yaml:"max_batch" json:"max_batch,omitempty"`
	Input    string          `yaml:"input" json:"-"`
	Hex      string          `yaml:"hex" json:"input_hex"`
	Shown    string          `yaml:"-" json:"shown"`
	Want     []*HeaderWanted `yaml:"want" json:"want"`
}

// A HeaderWanted is a message by its word, or a refusal. Of a refusal the message is the one that was refused, where it
// could be read. What the ingress sends and cannot be read has no code: it is refused as UNREADABLE.
type HeaderWanted struct {
	Message    string         `yaml:"message" json:"message,omitempty"`
	ID         string         `yaml:"id" json:"id,omitempty"`
	Records    string         `yaml:"records" json:"records,omitempty"`
	Payload    string         `yaml:"payload" json:"-"`
	PayloadHex string         `yaml:"payload_hex" json:"payload_hex,omitempty"`
	Watermark  string         `yaml:"watermark" json:"watermark,omitempty"`
	WaitMS     string         `yaml:"wait_ms" json:"wait_ms,omitempty"`
	Batches    string         `yaml:"batches" json:"batches,omitempty"`
	Bytes      string         `yaml:"bytes" json:"bytes,omitempty"`
	Reason     string         `yaml:"reason" json:"reason,omitempty"`
	Text       string         `yaml:"text" json:"text,omitempty"`
	Hello      *HelloWanted   `yaml:"hello" json:"hello,omitempty"`
	Welcome    *WelcomeWanted `yaml:"welcome" json:"welcome,omitempty"`
	Refused    string         `yaml:"refused" json:"refused,omitempty"`
	Size       int            `yaml:"size" json:"size,omitempty"`
	Closes     bool           `yaml:"closes" json:"closes,omitempty"`
}

// A HelloWanted is what HELLO holds.
type HelloWanted struct {
	Collector string `yaml:"collector" json:"collector"`
	Instance  string `yaml:"instance" json:"instance"`
	Token     string `yaml:"token" json:"token"`
	First     string `yaml:"first" json:"first"`
	Next      string `yaml:"next" json:"next"`
}

// A WelcomeWanted is what WELCOME holds.
type WelcomeWanted struct {
	Epoch         string     `yaml:"epoch" json:"epoch"`
	Committed     string     `yaml:"committed" json:"committed"`
	Received      string     `yaml:"received" json:"received"`
	Missing       [][]string `yaml:"missing" json:"missing"`
	Lost          [][]string `yaml:"lost" json:"lost"`
	WindowBatches string     `yaml:"window_batches" json:"window_batches"`
	WindowBytes   string     `yaml:"window_bytes" json:"window_bytes"`
	MaxBatchBytes string     `yaml:"max_batch_bytes" json:"max_batch_bytes"`
	IdleMS        string     `yaml:"idle_ms" json:"idle_ms"`
	Server        string     `yaml:"server" json:"server"`
}

// headerVectors tries each form of a number in each number of each message of the dialect.
func headerVectors(p *Protocol, d *Dialect, v *Vectors) {
	for _, m := range d.Requests {
		v.Requests2 = append(v.Requests2, numbersOf(p, m)...)
	}
	for _, m := range d.Replies {
		v.Replies2 = append(v.Replies2, numbersOf(p, m)...)
	}
}

func numbersOf(p *Protocol, m *Message) []*HeaderVector {
	var vectors []*HeaderVector
	for i, f := range m.Fields {
		if f.Max == "" {
			continue
		}
		high := p.Limits[slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Name == f.Max })].Value
		good := []uint64{f.Min, f.Min + 1, 10, high / 10 * 10, high}
		if f.Type == "payload" {
			good = good[:2] // longer ones need a payload
		}
		for _, n := range good {
			vectors = append(vectors, headerVector(m, i, strconv.FormatUint(n, 10), true))
		}
		bad := []string{"", "-1", "+1", "01", "00", "1e3", "0x10", "1_000", "1,000", "1.0", "\uff11", "abc", "\t1",
			strconv.FormatUint(high+1, 10), "18446744073709551617", "99999999999999999999", strings.Repeat("1", 400)}
		if f.Min > 0 {
			bad = append(bad, strconv.FormatUint(f.Min-1, 10))
		}
		for _, n := range bad {
			vectors = append(vectors, headerVector(m, i, n, false))
		}
	}
	return vectors
}

// headerVector is a message of which one field is given and all others are good.
func headerVector(m *Message, at int, given string, good bool) *HeaderVector {
	want := &HeaderWanted{Message: m.Word()}
	header, payload := m.Keyword, ""
	for i, f := range m.Fields {
		value := map[string]string{"code": "", "text": "x"}[f.Type]
		switch {
		case i == at:
			value = given
		case f.Type == "code":
			value = f.Reasons[0].Code
		case value == "":
			value = "1"
		}
		header += " " + value
		if f.Type == "payload" {
			value = map[string]string{"1": "x", "2": "xx"}[value]
			payload = value + "\r\n"
		}
		want.set(f, value)
	}
	switch {
	case !good && m.Code != "":
		want = &HeaderWanted{Refused: "UNREADABLE", Closes: true}
	case !good && at > 0:
		want = &HeaderWanted{Message: m.Command, ID: want.ID, Refused: "INVALID_PARAM", Closes: true}
	case !good:
		want = &HeaderWanted{Message: m.Command, Refused: "INVALID_PARAM", Closes: true}
	}
	return &HeaderVector{Name: fmt.Sprintf("%s with %s %.24q", m.Word(), m.Fields[at].Name, given),
		Input: header + "\r\n" + payload, Want: []*HeaderWanted{want}}
}

func (w *HeaderWanted) set(f *Field, value string) {
	into := map[string]*string{"id": &w.ID, "records": &w.Records, "payload": &w.Payload, "watermark": &w.Watermark,
		"wait": &w.WaitMS, "batches": &w.Batches, "bytes": &w.Bytes, "reason": &w.Reason, "text": &w.Text}[f.Name]
	if into == nil {
		panic("spec/gen: vectors know no field " + f.Name)
	}
	*into = value
}
