package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/format"
	"io/fs"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// An output is one generated file; path is relative to the root of the repository and uses slashes.
type output struct {
	path string
	text []byte
}

// generate makes every output from the definitions below root/spec. Of the existing outputs it reads only the
// documents, for the text outside of the generated tables.
func generate(root fs.FS) ([]output, error) {
	var outputs []output
	for _, part := range []func(fs.FS) ([]output, error){generateProtocol, generateVectors, generateOptions} {
		o, err := part(root)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, o...)
	}
	return outputs, nil
}

func generateProtocol(root fs.FS) ([]output, error) {
	p, err := loadProtocol(root)
	if err != nil {
		return nil, err
	}
	outputs, err := protocolGo(p)
	if err != nil {
		return nil, err
	}
	for _, lang := range languages {
		path := "docs/" + lang + "/protocol.md"
		o, err := fillDocument(root, path, protocolTables(p, lang))
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, o)
	}
	return outputs, nil
}

// protocolGo renders the Go files of package protocol.
func protocolGo(p *Protocol) ([]output, error) {
	var outputs []output
	for _, name := range []string{"command", "code", "limits", "messages"} {
		o, err := renderGo("protocol/"+name+"_gen.go", name+".go.tmpl", p)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, o)
	}
	for _, d := range p.Dialects {
		path := fmt.Sprintf("protocol/dialect%d_gen.go", d.Number)
		o, err := renderGo(path, d.Framing+".go.tmpl", d)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, o)
	}
	return outputs, nil
}

// renderGo executes a template and formats the result.
func renderGo(path, name string, data any) (output, error) {
	t, err := template.New("").Funcs(functions).ParseFS(templates, "templates/*.tmpl")
	if err != nil {
		return output{}, err
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return output{}, err
	}
	text, err := format.Source(b.Bytes())
	if err != nil {
		return output{}, fmt.Errorf("%s: %w\n%s", path, err, b.Bytes())
	}
	return output{path, text}, nil
}

// fillDocument puts each table between its markers, <!-- generated: NAME --> and <!-- end -->.
func fillDocument(root fs.FS, path string, tables map[string]string) (output, error) {
	old, err := fs.ReadFile(root, path)
	if err != nil {
		return output{}, err
	}
	var b strings.Builder
	rest, found := string(old), 0
	for {
		before, after, ok := strings.Cut(rest, "<!-- generated: ")
		b.WriteString(before)
		if !ok {
			break
		}
		name, tail, named := strings.Cut(after, " -->\n")
		_, tail, ended := strings.Cut(tail, "<!-- end -->")
		table, known := tables[name]
		if !named || !ended || !known {
			return output{}, fmt.Errorf("%s: marker of %.20q: no such table, or no <!-- end -->", path, name)
		}
		fmt.Fprintf(&b, "<!-- generated: %s -->\n%s<!-- end -->", name, table)
		rest, found = tail, found+1
	}
	if found != len(tables) {
		return output{}, fmt.Errorf("%s: has %d generated tables, want %d", path, found, len(tables))
	}
	return output{path, []byte(b.String())}, nil
}
