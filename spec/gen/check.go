package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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
			if err := p.checkMessage(d, m); err != nil {
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

func (p *Protocol) checkMessage(d *Dialect, m *Message) error {
	name := m.Word()
	request := m.Command != ""
	lines := d.Framing == "lines"
	switch {
	case fieldTypes[d.Framing] == nil:
		return fmt.Errorf("framing %q must be lines or headers", d.Framing)
	case request == (m.Code != ""):
		return fmt.Errorf("message %q: needs either a command or a code", m.Command+m.Code)
	case request && !hasWord(p.Commands, m.Command), !request && !hasWord(p.Codes, m.Code):
		return fmt.Errorf("message %s: no such command or code", name)
	case request && lines && m.Keyword == "":
		return fmt.Errorf("request %s: needs a keyword", name)
	case !lines && len(m.Keyword)+len(m.Replies)+len(m.Answers) > 0:
		return fmt.Errorf("message %s: has a keyword, replies or answers, which headers do not have", name)
	case m.From != "collector" && m.From != "ingress":
		return fmt.Errorf("message %s: from %q must be collector or ingress", name, m.From)
	}
	if err := errors.Join(m.When.check(), m.Next.check()); err != nil {
		return fmt.Errorf("message %s: when, next: %w", name, err)
	}
	for i, f := range m.Fields {
		if err := p.checkField(d, f, i == len(m.Fields)-1); err != nil {
			return fmt.Errorf("message %s: field %s: %w", name, f.Name, err)
		}
	}
	return nil
}

// The types of fields, by framing, and those of the members of a JSON field.
var (
	fieldTypes = map[string][]string{
		"lines":   {"number", "millis", "bytes"},
		"headers": {"number", "millis", "count", "code", "text", "payload", "json"},
	}
	lastTypes   = []string{"bytes", "text", "payload", "json"}
	memberTypes = []string{"number", "millis", "count", "version", "name", "word", "text", "ranges"}
)

// allowed joins the words of a list as English does.
func allowed(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func (p *Protocol) checkField(d *Dialect, f *Field, last bool) error {
	types := fieldTypes[d.Framing]
	switch {
	case !slices.Contains(types, f.Type):
		return fmt.Errorf("type %q must be %s", f.Type, allowed(types))
	case slices.Contains(lastTypes, f.Type) && !last:
		return fmt.Errorf("%s run to the end, so they must come last", f.Type)
	case (f.Type == "code") != (f.Reasons != nil), (f.Type == "json") != (f.Members != nil):
		return fmt.Errorf("a code has reasons, json has members, and nothing else has")
	}
	for _, r := range f.Reasons {
		if !hasWord(p.Codes, r.Code) {
			return fmt.Errorf("reason %s: no such code", r.Code)
		}
		if err := errors.Join(r.When.check(), r.Next.check()); err != nil {
			return fmt.Errorf("reason %s: when, next: %w", r.Code, err)
		}
	}
	for _, m := range f.Members {
		if !slices.Contains(memberTypes, m.Type) {
			return fmt.Errorf("member %s: type %q must be %s", m.Name, m.Type, allowed(memberTypes))
		}
		if err := p.checkLimit(m, m.Type == "text"); err != nil {
			return fmt.Errorf("member %s: %w", m.Name, err)
		}
	}
	return p.checkLimit(f, false)
}

// checkLimit demands a limit of what has a range, and text.
func (p *Protocol) checkLimit(f *Field, limited bool) error {
	limited = limited || slices.Contains([]string{"number", "millis", "count", "payload"}, f.Type)
	if limited && !slices.ContainsFunc(p.Limits, func(l Limit) bool { return l.Name == f.Max }) {
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
