package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const (
	module       = "github.com/tidemark/tidemark"
	mostLines    = 500 // of a file
	mostFuncLine = 70  // of a function: a screen
)

// line says which folders of the module the packages of a folder may import. Test files may import anything.
var line = map[string][]string{
	"protocol":     {},
	"statemachine": {},
	"config":       {"config"},
	"spec":         {}, // a generator never needs its output
	"model":        {"statemachine", "model"},
	"server":       {"protocol", "statemachine", "server", "config"},
	"collector":    {"protocol", "collector"},
	"cmd":          {"protocol", "statemachine", "config", "model", "server", "collector", "cmd", "internal"},
	"internal":     {},
	"fuzz":         {},
}

// source is one Go file of the module.
type source struct {
	name  string // path from the root of the module
	file  *ast.File
	fset  *token.FileSet
	lines int
}

func (s source) test() bool      { return strings.HasSuffix(s.name, "_test.go") }
func (s source) generated() bool { return strings.HasSuffix(s.name, "_gen.go") }
func (s source) folder() string  { folder, _, _ := strings.Cut(s.name, "/"); return folder }

// place is the folder whose row in line holds for the file. A program under internal is one like those under cmd:
// nobody can import it.
func (s source) place() string {
	if s.folder() == "internal" && s.file.Name.Name == "main" {
		return "cmd"
	}
	return s.folder()
}

func (s source) lineOf(p token.Pos) int {
	return s.fset.Position(p).Line
}

// load parses all Go files but those of nested modules, testdata and hidden folders.
func load(t *testing.T, root fs.FS) []source {
	t.Helper()
	var sources []source
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := fs.Stat(root, path.Join(name, "go.mod"))
			nested := name != "." && err == nil
			if base := path.Base(name); name != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || nested) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		sources = append(sources, source{name, file, fset, strings.Count(string(text), "\n")})
		return err
	})
	require.NoError(t, err)
	return sources
}

// rules yield what is wrong and how many things they looked at.
var rules = map[string]func([]source) (problems []string, seen int){
	"imports":   imports,
	"sleep":     sleep,
	"docs":      docs,
	"files":     files,
	"functions": functions,
}

func TestRules(t *testing.T) {
	sources := load(t, os.DirFS("../.."))
	for _, needed := range []string{"protocol", "statemachine"} {
		require.True(t, slices.ContainsFunc(sources, func(s source) bool { return s.folder() == needed }), "%s was not seen", needed)
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			problems, seen := rule(sources)
			require.Positive(t, seen, "the rule looked at nothing")
			for _, p := range problems {
				t.Error(p)
			}
		})
	}
}

// imports keeps the packages in a line.
func imports(sources []source) (problems []string, seen int) {
	for _, s := range sources {
		allowed, known := line[s.place()]
		if s.test() {
			continue
		}
		if !known {
			problems = append(problems, fmt.Sprintf("%s: folder %s has no place in the line; say in lint_test.go what it may import", s.name, s.folder()))
		}
		for _, spec := range s.file.Imports {
			seen++
			imported, _ := strconv.Unquote(spec.Path.Value)
			inside, ok := strings.CutPrefix(imported, module+"/")
			folder, _, _ := strings.Cut(inside, "/")
			if ok && !slices.Contains(allowed, folder) {
				problems = append(problems, fmt.Sprintf("%s imports %s, allowed of this module are %v: move what is shared down the line, or pass it in", s.name, imported, allowed))
			}
		}
	}
	return problems, seen
}

// sleep refuses time.Sleep in tests.
func sleep(sources []source) (problems []string, seen int) {
	for _, s := range sources {
		if !s.test() {
			continue
		}
		seen++
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == importName(s.file, "time") {
				problems = append(problems, fmt.Sprintf("%s:%d sleeps: wait for a condition with a deadline, on a channel, or use testing/synctest", s.name, s.lineOf(n.Pos())))
			}
			return true
		})
	}
	return problems, seen
}

// importName is the name under which a file uses a package of the standard library, or "" when it does not.
func importName(file *ast.File, of string) string {
	for _, spec := range file.Imports {
		if spec.Path.Value != strconv.Quote(of) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(of)
	}
	return ""
}

// docs wants a doc.go with a comment in each package; a program says it in main.go, above its flags.
func docs(sources []source) (problems []string, seen int) {
	documented := map[string]bool{}
	for _, s := range sources {
		if s.test() {
			continue
		}
		wanted := "doc.go"
		if s.file.Name.Name == "main" {
			wanted = "main.go"
		}
		folder := path.Dir(s.name)
		here := path.Base(s.name) == wanted && s.file.Doc != nil
		documented[path.Join(folder, wanted)] = documented[path.Join(folder, wanted)] || here
	}
	for name, ok := range documented {
		if !ok {
			problems = append(problems, fmt.Sprintf("%s: no such file with a package comment", name))
		}
	}
	slices.Sort(problems)
	return problems, len(documented)
}

func files(sources []source) (problems []string, seen int) {
	for _, s := range sources {
		seen++
		if s.lines > mostLines && !s.generated() {
			problems = append(problems, fmt.Sprintf("%s has %d lines, allowed are %d: split it by what its parts are about", s.name, s.lines, mostLines))
		}
	}
	return problems, seen
}

func functions(sources []source) (problems []string, seen int) {
	for _, s := range sources {
		if s.generated() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			seen++
			if n := s.lineOf(f.End()) - s.lineOf(f.Pos()) + 1; n > mostFuncLine {
				problems = append(problems, fmt.Sprintf("%s:%d %s has %d lines, allowed are %d", s.name, s.lineOf(f.Pos()), f.Name.Name, n, mostFuncLine))
			}
		}
	}
	return problems, seen
}

// TestRulesCanFail gives each rule a module that breaks it and nothing else.
func TestRulesCanFail(t *testing.T) {
	long := strings.Repeat("\n", mostLines)
	for _, c := range []struct{ rule, name, text, want string }{
		{"imports", "protocol/a.go", "import _ \"" + module + "/statemachine\"", "protocol/a.go imports"},
		{"imports", "protocol/inner/a.go", "import _ \"" + module + "/protocol\"", "protocol/inner/a.go imports"},
		{"imports", "collector/a.go", "import _ \"" + module + "/config\"", "allowed of this module are [protocol collector]"},
		{"imports", "internal/a/a.go", "import _ \"" + module + "/server\"", "internal/a/a.go imports"},
		{"imports", "odd/a.go", "", "folder odd has no place"},
		{"sleep", "server/a_test.go", "import \"time\"\nfunc f() { time.Sleep(1) }", "server/a_test.go:3 sleeps"},
		{"sleep", "server/a_test.go", "import t \"time\"\nvar f = t.Sleep", "server/a_test.go:3 sleeps"},
		{"docs", "server/doc.go", "", "server/doc.go: no such file"},
		{"docs", "server/a.go", "", "server/doc.go: no such file"},
		{"files", "server/a.go", long, "server/a.go has 501 lines"},
		{"functions", "server/a.go", "func f() {" + long[:mostFuncLine-1] + "}\nfunc g() {" + long[:mostFuncLine] + "}", "server/a.go:72 g has 71 lines"},
	} {
		sources := load(t, fstest.MapFS{c.name: {Data: []byte("package a\n" + c.text)}})
		problems, _ := rules[c.rule](sources)
		require.Len(t, problems, 1, "%s on %s", c.rule, c.name)
		require.Contains(t, problems[0], c.want)
	}
	for name, rule := range rules {
		problems, seen := rule(load(t, fstest.MapFS{
			"bench/go.mod":         {},
			"bench/a.go":           {Data: []byte("package a\n" + long)},
			"server/testdata/a.go": {Data: []byte("not Go")},
		}))
		require.Empty(t, problems, name)
		require.Zero(t, seen, name)
	}
}
