package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// indexPage lists all pages. Its sections and their order are written by hand, its lines are made by TestPages -update.
const indexPage = "docs/README.md"

func pageRules() []rule {
	const todo = " Run go test ./internal/lint -run TestPages -update."
	return []rule{
		{
			name:  "the index of docs is complete",
			check: checkIndex,
			why:   indexPage + " has a line for each page: its title and its first sentence. Move the line of a new page to the section where readers look." + todo,
		},
		{
			name:  "pages show the code as it is",
			check: checkShown,
			why: "The code below a comment \"code: FILE: NAMES\" is copied from that file, so that what readers copy is what tests run. The table below " +
				"\"table: PAGE: HEADING\" is copied from that page." + todo,
		},
	}
}

// TestPages writes the generated parts of pages, with -update. House rules compare it.
func TestPages(t *testing.T) {
	if !*update {
		t.Skip("without -update it has nothing to do")
	}
	tr := loadTree(t)
	for name, text := range tr.texts {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		made, problems := shown(tr, name)
		for _, p := range problems {
			t.Error(p)
		}
		if name == indexPage {
			made = index(tr)
		}
		if made != text {
			if err := os.WriteFile(filepath.Join("../..", name), []byte(made), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var (
	indexLine = regexp.MustCompile(`(?m)^- \[[^\]]*\]\(([^)]+)\).*\n`)
	linkText  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	sentence  = regexp.MustCompile(`^.*?[.:](?:\s|$)`)
)

// indexed are the pages that the index must list: the pages of docs, the first page of each folder below, and the pages of the root.
func indexed(t *tree) []string {
	var pages []string
	for name := range t.texts {
		if !strings.HasSuffix(name, ".md") || name == indexPage || name == "README.md" {
			continue
		}
		dir := path.Dir(name)
		if dir == "." || dir == "docs" || path.Dir(dir) == "docs" && path.Base(name) == "README.md" {
			pages = append(pages, name)
		}
	}
	slices.Sort(pages)
	return pages
}

// index returns the text that the index should have: each line regenerated, unknown pages left out, new pages at the end.
func index(t *tree) string {
	missing := indexed(t)
	text := indexLine.ReplaceAllStringFunc(t.texts[indexPage], func(line string) string {
		name := path.Join("docs", indexLine.FindStringSubmatch(line)[1])
		i := slices.Index(missing, name)
		if i < 0 {
			return ""
		}
		missing = slices.Delete(missing, i, i+1)
		return lineOf(t, name)
	})
	for _, name := range missing {
		text += lineOf(t, name)
	}
	return text
}

// lineOf is the line of the index for a page, with its title and its first sentence.
func lineOf(t *tree, name string) string {
	title, rest, _ := strings.Cut(codeBlock.ReplaceAllString(t.texts[name], ""), "\n")
	first := ""
	for paragraph := range strings.SplitSeq(rest, "\n\n") {
		if paragraph = strings.TrimSpace(paragraph); paragraph != "" && !strings.ContainsAny(paragraph[:1], "#|!<-") {
			first = sentence.FindString(strings.Join(strings.Fields(linkText.ReplaceAllString(paragraph, "$1")), " ") + " ")
			break
		}
	}
	link := strings.TrimPrefix(name, "docs/")
	if link == name {
		link = "../" + name
	}
	first = strings.TrimRight(first, ".: ")
	return fmt.Sprintf("- [%s](%s): %s.\n", strings.TrimPrefix(title, "# "), link, first)
}

func checkIndex(t *tree) []problem {
	var problems []problem
	if added, removed := difference(t.texts[indexPage], index(t)); len(added)+len(removed) > 0 {
		problems = append(problems, problem{indexPage, fmt.Sprintf("wants %q in place of %q", added, removed)})
	}
	for name := range t.texts {
		dir, base := path.Split(name)
		if first := dir + "README.md"; strings.HasPrefix(dir, "docs/") && dir != "docs/" && strings.HasSuffix(name, ".md") && !strings.Contains(t.texts[first], "("+base+")") && name != first {
			problems = append(problems, problem{first, "has no link to " + base})
		}
	}
	return sorted(problems)
}

// shownCode is the comment that names a file and declarations of it, with the block that shows them.
var shownCode = regexp.MustCompile("(?ms)^<!-- code: ([^:\n]+): ([^\n]+) -->\n```go\n(.*?)^```$")

// shownTable is the comment that names a page and a heading of it, with the table that shows the first one below that heading.
var shownTable = regexp.MustCompile(`(?m)^<!-- table: ([^:\n]+): ([^\n]+) -->\n((?:\|.*\n)*)`)

// tableBelow returns the first table below a heading of a page. Its links must work in both pages, so relative ones are refused.
func tableBelow(t *tree, name, heading string) (string, bool) {
	_, section, found := strings.Cut(t.texts[name], "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	table := regexp.MustCompile(`(?m)(?:^\|.*\n)+`).FindString(section)
	for _, link := range markdownLink.FindAllStringSubmatch(table, -1) {
		found = found && strings.Contains(link[1], "://")
	}
	return table, found && table != ""
}

// shown returns the text of a page with the code and the tables that its comments name.
func shown(t *tree, name string) (string, []problem) {
	var problems []problem
	text := shownCode.ReplaceAllStringFunc(t.texts[name], func(block string) string {
		m := shownCode.FindStringSubmatch(block)
		var parts []string
		for _, decl := range strings.Split(m[2], ", ") {
			part, ok := declaration(t, m[1], decl)
			if !ok {
				problems = append(problems, problem{name, fmt.Sprintf("%s has no declaration of %s", m[1], decl)})
				return block
			}
			parts = append(parts, part)
		}
		return fmt.Sprintf("<!-- code: %s: %s -->\n```go\n%s\n```", m[1], m[2], strings.Join(parts, "\n\n"))
	})
	text = shownTable.ReplaceAllStringFunc(text, func(block string) string {
		m := shownTable.FindStringSubmatch(block)
		table, ok := tableBelow(t, m[1], m[2])
		if !ok {
			problems = append(problems, problem{name, fmt.Sprintf("%s has no table without relative links below %q", m[1], m[2])})
			return block
		}
		return fmt.Sprintf("<!-- table: %s: %s -->\n%s", m[1], m[2], table)
	})
	return text, problems
}

func checkShown(t *tree) []problem {
	var problems []problem
	for _, name := range slices.Sorted(maps.Keys(t.texts)) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		made, faults := shown(t, name)
		problems = append(problems, faults...)
		if made != t.texts[name] {
			problems = append(problems, problem{name, "shows other code or another table than the files have"})
		}
	}
	return problems
}

// declaration returns the text of a declaration with its comment. The name "file" stands for everything after the package clause.
func declaration(t *tree, name, decl string) (string, bool) {
	for _, f := range t.files {
		if f.path != name {
			continue
		}
		cut := func(from, to token.Pos) string {
			return strings.TrimRight(t.texts[name][t.fset.Position(from).Offset:t.fset.Position(to).Offset], "\n")
		}
		if decl == "file" {
			return cut(f.ast.Package, f.ast.FileEnd), true
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == decl {
					return cut(start(d, d.Doc), d.End()), true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if namesSpec(spec, decl) {
						return cut(start(d, d.Doc), d.End()), true
					}
				}
			}
		}
	}
	return "", false
}

func start(d ast.Node, doc *ast.CommentGroup) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return d.Pos()
}

func namesSpec(spec ast.Spec, name string) bool {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Name.Name == name
	case *ast.ValueSpec:
		return slices.ContainsFunc(spec.Names, func(id *ast.Ident) bool { return id.Name == name })
	}
	return false
}

func pageBreaches() []breach {
	const code = "package x\n\nimport \"fmt\"\n\n// F prints.\nfunc F() {\n\tfmt.Println()\n}\n\nvar a = 1\n"
	page := func(names, block string) string {
		return "# A\n\n<!-- code: x/x.go: " + names + " -->\n```go\n" + block + "\n```\n"
	}
	const docs = "# Docs\n\n## One\n\n"
	return []breach{
		{"the index of docs is complete", []string{"docs/README.md", docs, "docs/a.md", "# A\n\nSays *a*. And b.\n"}, []string{"[A](a.md): Says *a*.\""}},
		{"the index of docs is complete", []string{"docs/README.md", docs + "- [A](a.md): Is gone.\n"}, []string{`in place of ["- [A](a.md): Is gone."]`}},
		{"the index of docs is complete", []string{"docs/README.md", docs + "- [A](a.md): Said b.\n", "docs/a.md", "# A\n\nSays a\nand [b](b.md).\n"}, []string{"Says a and b."}},
		{
			"the index of docs is complete",
			[]string{"docs/README.md", docs + "- [D](d/README.md): Is.\n", "docs/d/README.md", "# D\n\nIs.\n", "docs/d/a.md", "# A\n"},
			[]string{"no link to a.md"},
		},
		{"the index of docs is complete", []string{
			"docs/README.md", docs + "- [B](../B.md): Is b.\n\n## Two\n\n- [A](a.md): Is a.\n", "docs/a.md", "# A\n\n```sh\nx\n```\n\nIs a: as said.\n", "B.md", "# B\n\n| a |\n|---|\n\nIs b.\n",
			"README.md", "# R\n", "x/c.md", "# C\n",
		}, nil},
		{"pages show the code as it is", []string{"a.md", page("F", "func F() {}"), "x/x.go", code}, []string{"other code"}},
		{"pages show the code as it is", []string{"a.md", page("F, G", ""), "x/x.go", code}, []string{"no declaration of G"}},
		{"pages show the code as it is", []string{"a.md", "<!-- table: b.md: B -->\n| b |\n", "b.md", "# A\n\n## B\n\n| a |\n"}, []string{"another table"}},
		{"pages show the code as it is", []string{"a.md", "<!-- table: b.md: B -->\n", "b.md", "# A\n\n## B\n\n| [a](c.md) |\n"}, []string{"no table without relative"}},
		{"pages show the code as it is", []string{"a.md", "<!-- table: b.md: B -->\n", "b.md", "# A\n\n## B\n\n## C\n\n| a |\n", "c.md", "x"}, []string{"no table"}},
		{"pages show the code as it is", []string{
			"a.md", "<!-- table: b.md: B -->\n| a |\n\n| d |\n", "b.md", "# A\n\n## B\n\nSays\n\n| a |\n\n| c |\n",
		}, nil},
		{"pages show the code as it is", []string{
			"a.md", page("a, F", "var a = 1\n\n// F prints.\nfunc F() {\n\tfmt.Println()\n}"), "b.md", page("file", strings.TrimSpace(code)), "x/x.go", code,
		}, nil},
	}
}

// beginPage is the first page that contributors read, so it is short too. The pages of docs/internals have no bounds.
const (
	beginPage     = "docs/internals.md"
	maxBeginWords = 1_200
)

// forContributors reports whether a page of docs is not for users.
func forContributors(name string) bool {
	return name == beginPage || strings.HasPrefix(name, "docs/internals/")
}

// The pages for users are few and short.
const (
	maxPages     = 32
	maxWords     = 64_000
	maxPageWords = 2_500
)

// references are pages for looking things up. They may be longer.
var references = []string{
	"docs/cluster-failures.md", "docs/extractor.md", "docs/forebay.md", "docs/metrics.md", "docs/types.md",
}

func TestSizeOfPages(t *testing.T) {
	pages, words := 0, 0
	texts := loadTree(t).texts
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !strings.HasPrefix(name, "docs/") || !strings.HasSuffix(name, ".md") || forContributors(name) && name != beginPage {
			continue
		}
		n := 0
		for _, field := range strings.Fields(texts[name]) {
			if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) { // not a line of a table
				n++
			}
		}
		if name == beginPage {
			if n > maxBeginWords {
				t.Errorf("%s has %d words, at most %d: move details to docs/internals, want at most %v", name, n, maxBeginWords, maxBeginWords)
			}
			continue
		}
		if name != "docs/README.md" { // the list of pages
			pages++
		}
		words += n
		if n > maxPageWords && !slices.Contains(references, name) {
			t.Errorf("%s has %d words, at most %d: split it, or remove text that a different page has", name, n, maxPageWords)
		}
	}
	if pages > maxPages || words > maxWords {
		t.Errorf("%d pages for users with %d words, at most %d and %d: remove text that a different page has, or move proofs to docs/internals", pages, words, maxPages, maxWords)
	}
	t.Logf("%d pages, %d words", pages, words)
}
