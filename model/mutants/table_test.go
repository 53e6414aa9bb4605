package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	page  = "docs/en/verification.md"
	begin = "<!-- mutants: begin -->\n"
	end   = "<!-- mutants: end -->\n"
)

// count is how many layers caught it.
func (r row) count() (n int) {
	for _, what := range r {
		if what != "" {
			n++
		}
	}
	return n
}

// cells are the row as the table has it: what caught the mutant, "passes", or nothing where the layer is not about it.
func (r row) cells() (list []string) {
	for _, l := range layers {
		what, ran := r[l.name]
		switch {
		case !ran:
			list = append(list, "")
		case what == "":
			list = append(list, "passes")
		default:
			list = append(list, "`"+what[strings.LastIndexByte(what, '/')+1:]+"`")
		}
	}
	return list
}

// table is the one of docs/en/verification.md.
func table(list []mutant, found map[string]row) string {
	var text, rule strings.Builder
	text.WriteString("| mutant | the fault |")
	rule.WriteString("|---|---|")
	for _, l := range layers {
		fmt.Fprintf(&text, " %s |", l.name)
		rule.WriteString("---|")
	}
	fmt.Fprintf(&text, "\n%s\n", rule.String())
	for _, m := range list {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", m.name, m.fault, strings.Join(found[m.name].cells(), " | "))
	}
	return text.String()
}

// readTable is the layers that catch each mutant, by the page; last those in which it hangs or panics.
func readTable(t *testing.T) map[string][]layer {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(content), begin)
	text, _, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no table of mutants", page)
	table := map[string][]layer{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != len(layers)+4 {
			continue
		}
		name, last := strings.TrimSpace(cells[1]), []layer(nil)
		for i, l := range layers {
			switch cell := strings.TrimSpace(cells[i+3]); {
			case cell == "`panic`":
				last = append(last, l)
			case strings.HasPrefix(cell, "`"):
				table[name] = append(table[name], l)
			}
		}
		table[name] = append(table[name], last...)
	}
	return table
}

// compare holds the table of the page against what was found, or writes it anew. Which of its tests a layer fails first
// may depend on the machine: it is whether a layer catches a mutant that must agree.
func compare(t *testing.T, list []mutant, found map[string]row) {
	t.Helper()
	path := filepath.Join(root, page)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(content), begin)
	require.True(t, ok, "%s has no line %s", page, begin)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no line %s", page, end)
	now := table(list, found)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+now+end+after), 0o644))
		return
	}
	require.Equal(t, bare(old), bare(now), "%s does not tell what catches the mutants; write it anew: make mutants UPDATE=1", page)
}

// bare is a table with "caught" in the place of what caught it.
func bare(table string) (lines []string) {
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		for i := range cells {
			if strings.HasPrefix(cells[i], " `") {
				cells[i] = " caught "
			}
		}
		lines = append(lines, strings.Join(cells, "|"))
	}
	return lines
}
