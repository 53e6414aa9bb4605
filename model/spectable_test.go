package model

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const machineDir = "../statemachine"

// specTable is the rows of docs/spec/README.md under a heading, by the name in the first column.
func specTable(t *testing.T, heading string) map[string][]string {
	t.Helper()
	readme := readSpec(t, "README.md")
	_, section, found := strings.Cut(readme, "\n### "+heading+"\n")
	require.True(t, found, "docs/spec/README.md has no heading %q", heading)
	section, _, _ = strings.Cut(section, "\n#")
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		name := backquoted.FindStringSubmatch(cells[0])
		if len(cells) != 3 || name == nil {
			continue
		}
		require.NotContains(t, rows, name[1], "%s: two rows", heading)
		rows[name[1]] = cells[1:]
	}
	return rows
}

var backquoted = regexp.MustCompile("`([^`]+)`")

func readSpec(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(specDir, name))
	require.NoError(t, err)
	return string(content)
}

// names is the first group of each match, which must be some.
func names(t *testing.T, pattern, text string) []string {
	t.Helper()
	var list []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	require.NotEmpty(t, list, pattern)
	return list
}

// operator is the text of a top-level operator of a module, to the next empty line.
func operator(t *testing.T, module, name string) string {
	t.Helper()
	_, body, found := strings.Cut(module, "\n"+name+" ==")
	require.True(t, found, name)
	body, _, _ = strings.Cut(body, "\n\n")
	return body
}

// TestSpecTable holds the table in docs/spec/README.md against the specification and the Go code:
// it names all there is in the specification and nothing else, and the Go names exist where it says.
func TestSpecTable(t *testing.T) {
	stream := readSpec(t, "Stream.tla")
	constants, _, _ := strings.Cut(stream, "ASSUME")
	rules, _, _ := strings.Cut(readSpec(t, "Seat.tla"), "(* the world *)")
	tables := []struct {
		heading string
		want    []string
	}{
		{"Constants", names(t, `(?m)^(?:CONSTANTS +| {10})([A-Z]\w+)[, ]`, constants)},
		{"Operators", names(t, `(?m)^(\w+)(?:\([^)]*\))? +==`, stream)},
		{"Fields of a stream", names(t, `(\w+) \|->`, operator(t, stream, "Fresh"))},
		{"Fields of an image", names(t, `(\w+) +\|->`, operator(t, stream, "Image(s)"))},
		{"A seat", append(names(t, `(?m)^(\w+)(?:\([^)]*\))? +==`, rules), "CanSkip", "Skip", "DoReceive", "DoRefuse", "DoSkip", "Fence")},
		{"Fields of a seat", names(t, `(\w+) \|->`, operator(t, rules, "NewSeat"))},
		{"A connection", []string{"Blocked", "Proven", "Answer", "Told", "Refuse", "Deny", "Serve", "named", "refused", "told"}},
	}
	declared := declarations(t)
	for _, table := range tables {
		t.Run(table.heading, func(t *testing.T) {
			rows := specTable(t, table.heading)
			for _, name := range table.want {
				require.Contains(t, rows, name, "docs/spec/README.md has no row for it under %q", table.heading)
			}
			for name, row := range rows {
				require.Contains(t, table.want, name, "a row under %q, but it is not in the specification", table.heading)
				requireRow(t, declared, name, row)
			}
		})
	}
	system := readSpec(t, "System.tla")
	for _, name := range tables[len(tables)-1].want {
		require.Regexp(t, `(?m)^(\s+|)`+name+`(\(id\) ==| ==|, )`, system, "not in System.tla")
	}
}

// requireRow checks the second and third column: Go names and their files, or a dash and a reason.
func requireRow(t *testing.T, declared map[string]string, name string, row []string) {
	t.Helper()
	if reason, dash := strings.CutPrefix(strings.TrimSpace(row[0]), "—"); dash {
		require.NotEmpty(t, strings.TrimSpace(reason), "%s has no Go name, and no reason", name)
		return
	}
	goNames, files := backquoted.FindAllStringSubmatch(row[0], -1), backquoted.FindAllStringSubmatch(row[1], -1)
	require.NotEmpty(t, goNames, "%s has neither a Go name nor a dash", name)
	require.Len(t, files, len(goNames), "%s: one file for each Go name", name)
	for i, goName := range goNames {
		file, exists := declared[goName[1]]
		require.True(t, exists, "%s: package statemachine declares no %s", name, goName[1])
		require.Equal(t, files[i][1], file, "%s: the file of %s", name, goName[1])
	}
}

// declarations maps what package statemachine declares to the file: functions, types, methods as
// Type.Method and fields as Type.field.
func declarations(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(machineDir, "*.go"))
	require.NoError(t, err)
	declared := map[string]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			for _, name := range declaredBy(decl) {
				declared[name] = filepath.Base(path)
			}
		}
	}
	require.NotEmpty(t, declared)
	return declared
}

func declaredBy(decl ast.Decl) (list []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			receiver := d.Recv.List[0].Type
			if star, ok := receiver.(*ast.StarExpr); ok {
				receiver = star.X
			}
			if id, ok := receiver.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		return []string{name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if s, ok := spec.(*ast.TypeSpec); ok {
				list = append(list, s.Name.Name)
				list = append(list, fieldsOf(s)...)
			}
		}
	}
	return list
}

func fieldsOf(spec *ast.TypeSpec) (list []string) {
	record, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, field := range record.Fields.List {
		for _, name := range field.Names {
			list = append(list, spec.Name.Name+"."+name.Name)
		}
	}
	return list
}
