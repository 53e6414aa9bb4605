package main

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Languages of all text in the definitions; each has a folder below docs.
var languages = []string{"en", "zh"}

// A Text says the same in each language.
type Text struct {
	En string `yaml:"en"`
	Zh string `yaml:"zh"`
}

// In yields the text in the language.
func (t Text) In(lang string) string {
	if lang == "zh" {
		return t.Zh
	}
	return t.En
}

// check demands whole sentences in each language. A text that YAML cut at a # or a colon has no full stop.
func (t Text) check() error {
	if !strings.HasSuffix(t.En, ".") || !strings.HasSuffix(t.Zh, "。") {
		return fmt.Errorf("needs text in en and zh that ends in a full stop")
	}
	return nil
}

// Protocol is spec/protocol.yaml.
type Protocol struct {
	Limits   []Limit    `yaml:"limits"`
	Commands []Word     `yaml:"commands"`
	Codes    []Word     `yaml:"codes"`
	Dialects []*Dialect `yaml:"dialects"`
}

// A Limit is a named bound.
type Limit struct {
	Name  string `yaml:"name"`
	Value uint64 `yaml:"value"`
	Unit  string `yaml:"unit"`
	Text  `yaml:",inline"`
}

// A Word is a command or a code. Its number and name never change.
type Word struct {
	Number int    `yaml:"number"`
	Name   string `yaml:"name"`
	Error  bool   `yaml:"error"`
	Text   `yaml:",inline"`
}

// A Dialect is one form of the commands and codes on the wire.
type Dialect struct {
	Number   int        `yaml:"number"`
	Name     string     `yaml:"name"`
	Framing  string     `yaml:"framing"` // names the template
	Requests []*Message `yaml:"requests"`
	Replies  []*Message `yaml:"replies"`

	protocol *Protocol
}

// A Message is one request (Command, Keyword) or reply (Code) of a dialect.
type Message struct {
	Command string   `yaml:"command"`
	Code    string   `yaml:"code"`
	Keyword string   `yaml:"keyword"` // the command as the dialect writes it; headers write the command itself
	From    string   `yaml:"from"`
	Fields  []*Field `yaml:"fields"`
	When    Text     `yaml:"when"`
	Next    Text     `yaml:"next"`
	Replies []string `yaml:"replies"` // of a request
	Answers []string `yaml:"answers"` // of a reply: the commands it can follow
	Closes  bool     `yaml:"closes"`  // the sender closes the connection after it
}

// A Field is one part of a message, or a member of a JSON object.
type Field struct {
	Name     string    `yaml:"name"`
	Type     string    `yaml:"type"`
	Min      uint64    `yaml:"min"`
	Max      string    `yaml:"max"`      // the name of a limit
	Optional bool      `yaml:"optional"` // of a member: it may be left out
	Reasons  []*Reason `yaml:"reasons"`  // of a code
	Members  []*Field  `yaml:"members"`  // of json
	Text     `yaml:",inline"`

	Last bool   `yaml:"-"` // nothing follows it in its message
	Read string `yaml:"-"` // the method of a cursor that cuts it out
}

// A Reason is a code that a message carries, when it does, and what the receiver then does.
type Reason struct {
	Code string `yaml:"code"`
	When Text   `yaml:"when"`
	Next Text   `yaml:"next"`
}

// load reads one definition file; a key that is not known is an error.
func load(root fs.FS, path string, into any) error {
	text, err := fs.ReadFile(root, path)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalWithOptions(text, into, yaml.Strict()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func loadProtocol(root fs.FS) (*Protocol, error) {
	p := new(Protocol)
	if err := load(root, "spec/protocol.yaml", p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("spec/protocol.yaml: %w", err)
	}
	for _, d := range p.Dialects {
		d.protocol = p
		for _, m := range d.messages() {
			if d.Framing == "headers" {
				m.Keyword = m.Word()
			}
			m.order()
		}
	}
	return p, nil
}

func (d *Dialect) messages() []*Message { return slices.Concat(d.Requests, d.Replies) }

// order tells each field its place: a text may be left out, so that what is in front of it may end the message.
func (m *Message) order() {
	for i, f := range m.Fields {
		f.Last = i == len(m.Fields)-1
		switch {
		case f.Last:
			f.Read = "rest"
		case m.Fields[i+1].Type == "text":
			f.Read = "word"
		default:
			f.Read = "field"
		}
	}
}

// Word is the command or the code that the message is called by.
func (m *Message) Word() string { return m.Command + m.Code }
