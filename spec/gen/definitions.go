package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
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
	Keyword string   `yaml:"keyword"` // the command as the dialect writes it
	From    string   `yaml:"from"`
	Fields  []*Field `yaml:"fields"`
	When    Text     `yaml:"when"`
	Next    Text     `yaml:"next"`
	Replies []string `yaml:"replies"` // of a request
	Answers []string `yaml:"answers"` // of a reply: the commands it can follow
	Closes  bool     `yaml:"closes"`  // the sender closes the connection after it
}

// A Field is one part of a message.
type Field struct {
	Name string `yaml:"name"`
	Type string `yaml:"type"`
	Min  uint64 `yaml:"min"`
	Max  string `yaml:"max"` // the name of a limit
	Text `yaml:",inline"`

	Last bool `yaml:"-"` // nothing follows it in its message
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
			for i, f := range m.Fields {
				f.Last = i == len(m.Fields)-1
			}
		}
	}
	return p, nil
}

func (d *Dialect) messages() []*Message { return slices.Concat(d.Requests, d.Replies) }

var wordForm = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)

// check refuses what would make numbers unstable, or output that does not compile.
func (p *Protocol) check() error {
	if err := checkWords("command", p.Commands); err != nil {
		return err
	}
	if err := checkWords("code", p.Codes); err != nil {
		return err
	}
	for i, l := range p.Limits {
		if l.Name == "" || l.Value == 0 {
			return fmt.Errorf("limit %d: needs a name and a value", i+1)
		}
		if err := l.Text.check(); err != nil {
			return fmt.Errorf("limit %s: %w", l.Name, err)
		}
	}
	for i, d := range p.Dialects {
		if d.Number != i+1 {
			return fmt.Errorf("dialect %d: the number must be %d: no gaps, no duplicates", d.Number, i+1)
		}
		for _, m := range d.messages() {
			if err := p.checkMessage(m); err != nil {
				return fmt.Errorf("dialect %d: %w", d.Number, err)
			}
		}
		if err := d.checkPairs(); err != nil {
			return fmt.Errorf("dialect %d: %w", d.Number, err)
		}
	}
	return nil
}

// checkWords demands the numbers 1, 2, 3, ... in order, one name each, and text in each language.
func checkWords(kind string, words []Word) error {
	seen := map[string]bool{}
	for i, w := range words {
		switch {
		case w.Number != i+1:
			return fmt.Errorf("%s %s: number %d, must be %d: no gaps, no duplicates, in order", kind, w.Name, w.Number, i+1)
		case !wordForm.MatchString(w.Name):
			return fmt.Errorf("%s %d: name %q must be upper-case words joined by _", kind, w.Number, w.Name)
		case seen[w.Name]:
			return fmt.Errorf("%s %d: name %s is taken", kind, w.Number, w.Name)
		}
		if err := w.Text.check(); err != nil {
			return fmt.Errorf("%s %s: %w", kind, w.Name, err)
		}
		seen[w.Name] = true
	}
	return nil
}

func hasWord(words []Word, name string) bool {
	return slices.ContainsFunc(words, func(w Word) bool { return w.Name == name })
}

func (p *Protocol) checkMessage(m *Message) error {
	name := m.Command + m.Code
	request := m.Command != ""
	switch {
	case request == (m.Code != ""):
		return fmt.Errorf("message %q: needs either a command or a code", name)
	case request && !hasWord(p.Commands, m.Command), !request && !hasWord(p.Codes, m.Code):
		return fmt.Errorf("message %s: no such command or code", name)
	case request && m.Keyword == "":
		return fmt.Errorf("request %s: needs a keyword", name)
	case m.From != "collector" && m.From != "ingress":
		return fmt.Errorf("message %s: from %q must be collector or ingress", name, m.From)
	}
	if err := errors.Join(m.When.check(), m.Next.check()); err != nil {
		return fmt.Errorf("message %s: when, next: %w", name, err)
	}
	for i, f := range m.Fields {
		if err := p.checkField(f, i == len(m.Fields)-1); err != nil {
			return fmt.Errorf("message %s: field %s: %w", name, f.Name, err)
		}
	}
	return nil
}

func (p *Protocol) checkField(f *Field, last bool) error {
	limited := f.Type == "number" || f.Type == "millis"
	switch {
	case !limited && f.Type != "bytes":
		return fmt.Errorf("type %q must be number, millis or bytes", f.Type)
	case f.Type == "bytes" && !last:
		return fmt.Errorf("bytes run to the end of the line, so they must come last")
	case limited && !slices.ContainsFunc(p.Limits, func(l Limit) bool { return l.Name == f.Max }):
		return fmt.Errorf("max %q is no limit", f.Max)
	}
	return f.Text.check()
}

// checkPairs demands that requests and replies name each other.
func (d *Dialect) checkPairs() error {
	pairs := map[[2]string]int{}
	for _, m := range d.Requests {
		for _, code := range m.Replies {
			pairs[[2]string{m.Command, code}]++
		}
	}
	for _, m := range d.Replies {
		for _, command := range m.Answers {
			pair := [2]string{command, m.Code}
			if pairs[pair] != 1 {
				return fmt.Errorf("reply %s answers %s: the request must name it, once", m.Code, command)
			}
			pairs[pair]++
		}
	}
	for pair, n := range pairs {
		if n == 1 {
			return fmt.Errorf("request %s names %s, but no such reply answers it", pair[0], pair[1])
		}
	}
	return nil
}
