package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Limits of a package comment. A documentation site shows it above everything else, so it begins with a sample and is short.
const (
	maxPackageLines = 60
	maxSampleStart  = 12
)

// withoutSample are packages of small helpers, and one that is a sample as a whole.
var withoutSample = []string{"driverkit", "drivers/template"}

// wantedExamples are the examples of a package, without Example in front.
var wantedExamples = map[string][]string{
	".": {
		"", "Engine_IngestOnce", "Engine_IngestBatch", "Engine_Submit", "Engine_IngestAtomic", "Engine_WaitForRoom", "Engine_Flush",
		"SinkHandle_Quarantine", "SinkHandle_Replay",
	},
	"stream": {"Ingest"}, "driver": {"Target"}, "catalog": {""}, "console": {"New"}, "mapping": {""},
	"drivers/sqlite": {""}, "drivers/postgres": {""}, "drivers/parquet": {""}, "drivers/iceberg": {""}, "drivers/clickhouse": {""},
	"drivers/duckdb": {""}, "drivers/mysql": {"Open"}, "drivers/bucket": {"Open"},
}

// testedExamples have no output, because they need a server. A test TestExample runs them.
var testedExamples = []string{"drivers/postgres", "drivers/clickhouse"}

// public reports whether programs outside of this repository import the package.
func (f *file) public() bool {
	return !f.test && !f.kit() && f.ast.Name.Name != "main" && !slices.Contains([]string{"examples", "cmd", "bench"}, f.room()) &&
		!slices.Contains(strings.Split(f.dir, "/"), "internal") && path.Base(f.dir) != "bench"
}

// packageComment returns the fault in the lines of a package comment.
func packageComment(doc string, sample bool) error {
	lines := strings.Split(strings.TrimRight(doc, "\n"), "\n")
	if len(lines) > maxPackageLines {
		return fmt.Errorf("has %d lines, at most %d: move sections to the types and functions that they describe", len(lines), maxPackageLines)
	}
	if !sample {
		return nil
	}
	start := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "\t") })
	if start < 0 || start >= maxSampleStart {
		return fmt.Errorf("has no sample in its first %d lines: begin with an indented piece of code", maxSampleStart)
	}
	end := start
	for end < len(lines) && (lines[end] == "" || strings.HasPrefix(lines[end], "\t")) {
		end++
	}
	code := strings.Join(lines[start:end], "\n")
	_, asBody := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+code+"\n}", parser.SkipObjectResolution)
	_, asFile := parser.ParseFile(token.NewFileSet(), "", "package p\n"+code, parser.SkipObjectResolution)
	if asBody != nil && asFile != nil {
		return fmt.Errorf("begins with an indented piece that is no Go code: %w", asBody)
	}
	return nil
}

// The comment of each public package is short and begins with a sample.
func TestPackageComments(t *testing.T) {
	docs := map[string]string{}
	for _, f := range loadTree(t).files {
		if f.public() {
			if f.ast.Doc != nil {
				docs[f.dir] += commentText(f.ast.Doc)
			} else if docs[f.dir] == "" {
				docs[f.dir] = ""
			}
		}
	}
	if len(docs) < 40 {
		t.Errorf("only %d packages were found", len(docs))
	}
	for dir, doc := range docs {
		small := slices.ContainsFunc(withoutSample, func(at string) bool { return dir == at || strings.HasPrefix(dir, at+"/") })
		if doc == "" {
			t.Errorf("package %s has no comment", dir)
		} else if err := packageComment(doc, !small); err != nil {
			t.Errorf("the comment of package %s %v", dir, err)
		}
	}
}

// commentText returns the lines of a comment without slashes. Unlike ast.CommentGroup.Text it keeps all lines.
func commentText(doc *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range doc.List {
		text := strings.TrimPrefix(c.Text, "//")
		b.WriteString(strings.TrimPrefix(text, " ") + "\n")
	}
	return b.String()
}

// The calls that a user needs first have examples that run.
func TestExamplesExist(t *testing.T) {
	type example struct{ output bool }
	found := map[string]example{}
	for _, f := range loadTree(t).files {
		if !f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Example") && fn.Name.Name != "TestExample" {
				continue
			}
			e := example{}
			for _, group := range f.ast.Comments {
				e.output = e.output || group.Pos() > fn.Pos() && group.End() < fn.End() && strings.Contains(commentText(group), "Output:")
			}
			found[f.dir+" "+fn.Name.Name] = e
		}
	}
	for dir, names := range wantedExamples {
		for _, name := range names {
			e, ok := found[dir+" Example"+name]
			if _, tested := found[dir+" TestExample"]; !ok || !e.output && !(tested && slices.Contains(testedExamples, dir)) {
				t.Errorf("package %s has no Example%s with an output: write one, because a documentation site shows it below the method", dir, name)
			}
		}
	}
}

// The page about drivers lists each optional interface of package driver, and no others.
func TestOptionalInterfacesAreListed(t *testing.T) {
	const page, title = "docs/internals/drivers.md", "6. Add what your target can do"
	tr := loadTree(t)
	var want []string
	for _, f := range tr.files {
		if f.dir != "driver" || f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.GenDecl); ok && strings.Contains(strings.Join(strings.Fields(d.Doc.Text()), " "), " is an optional interface of a [") {
				want = append(want, d.Specs[0].(*ast.TypeSpec).Name.Name)
			}
		}
	}
	text, _ := section(tr.texts[page], title)
	table, _, _ := strings.Cut(text[strings.Index(text, "|---"):], "\n\n")
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) < 13 || !slices.Equal(got, want) {
		t.Errorf("%s lists the interfaces %q below %q, package driver has %q", page, got, title, want)
	}
}

func TestPackageCommentRule(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{"Package a is.\n\n\ta, err := b.Open()\n", ""},
		{"Package a is.\n\n\ttype T struct{}\n\n\tfunc (t T) F() {}\n\nMore.\n", ""},
		{"Package a is.\n", "no sample"},
		{"Package a is.\n\n\trecord ─▶ row\n", "no Go code"},
		{"Package a is.\n" + strings.Repeat("\n", maxSampleStart) + "\tx()\n", "no sample"},
		{"Package a is.\n\n\tx()\n" + strings.Repeat("More.\n", maxPackageLines), "lines, at most"},
	} {
		if err := packageComment(tt.doc, true); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %.60q: %v, want %q", tt.doc, err, tt.want)
		}
	}
}
