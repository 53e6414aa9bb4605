package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

var functions = template.FuncMap{
	"goName":  goName,
	"quote":   strconv.Quote,
	"comment": comment,
	"doc":     doc,
	"lower":   strings.ToLower,
	"upper":   strings.ToUpper,
	"words":   words,
}

// goName turns AUTH_FAILED or data-dir into AuthFailed and DataDir.
func goName(word string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return r == '_' || r == '-' }) {
		part = strings.ToLower(part)
		switch part {
		case "id", "http", "json":
			b.WriteString(strings.ToUpper(part))
		default:
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// comment sets text as line comments that fit a screen.
func comment(text string) string {
	const width = 112
	var b strings.Builder
	line := "//"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = "//"
		}
		line += " " + word
	}
	b.WriteString(line)
	return b.String()
}

// doc is the doc comment of name: what it is, then the text.
func doc(name, text string) string { return comment(name + ": " + lowerFirst(text)) }

func lowerFirst(text string) string { return strings.ToLower(text[:1]) + text[1:] }

// GoType is the Go type of a field.
func (f *Field) GoType() string {
	switch f.Type {
	case "number":
		return "uint64"
	case "count":
		return "int"
	case "millis":
		return "time.Duration"
	case "code":
		return "Code"
	case "text", "name", "word":
		return "string"
	case "ranges":
		return "[]Range"
	case "json":
		return "*" + goName(f.Name)
	default:
		return "[]byte"
	}
}

// GoName is the Go name of a field. The type of a time tells its unit.
func (f *Field) GoName() string {
	if f.Type == "millis" {
		return goName(strings.TrimSuffix(f.Name, "_ms"))
	}
	return goName(f.Name)
}

// union yields the fields of some messages, each name once; equal names must have equal types. Where messages differ in
// what they say of a field, the text says which message says what.
func union(messages []*Message) []*Field {
	var fields []*Field
	said := map[string][]string{}
	for _, m := range messages {
		for _, f := range m.Fields {
			i := slices.IndexFunc(fields, func(g *Field) bool { return g.Name == f.Name })
			switch {
			case i < 0:
				copied := *f
				fields = append(fields, &copied)
			case fields[i].Type != f.Type:
				panic(fmt.Sprintf("field %s has two types", f.Name))
			case fields[i].En != f.En:
				fields[i].En = strings.Join(append(said[f.Name], m.Word()+": "+f.En), " ")
			}
			said[f.Name] = append(said[f.Name], m.Word()+": "+f.En)
		}
	}
	return fields
}

// RequestFields yields all fields of all requests.
func (d *Dialect) RequestFields() []*Field { return union(d.Requests) }

// ReplyFields yields all fields of all replies.
func (d *Dialect) ReplyFields() []*Field { return union(d.Replies) }

// Objects yields the fields of the dialect that are JSON objects.
func (d *Dialect) Objects() []*Field {
	return slices.DeleteFunc(union(d.messages()), func(f *Field) bool { return f.Type != "json" })
}

// words yields what the messages begin with.
func words(messages []*Message) string {
	var list []string
	for _, m := range messages {
		list = append(list, m.Word())
	}
	return allowed(list)
}

// A Form is one reply code with the shapes it has.
type Form struct {
	Code   string
	Bare   bool // it can come without fields
	Fields []*Field
}

// ReplyForms joins the replies of one code, in the order of first appearance.
func (d *Dialect) ReplyForms() []*Form {
	var forms []*Form
	for _, m := range d.Replies {
		i := slices.IndexFunc(forms, func(f *Form) bool { return f.Code == m.Code })
		if i < 0 {
			forms = append(forms, &Form{Code: m.Code})
			i = len(forms) - 1
		}
		if len(m.Fields) == 0 {
			forms[i].Bare = true
		} else {
			forms[i].Fields = m.Fields
		}
	}
	return forms
}
