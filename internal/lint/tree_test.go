package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path of the main module. Nested modules have paths below it.
const module = "github.com/forebay/forebay"

// A tree is the repository, with all Go files of all modules, and the texts.
type tree struct {
	fset  *token.FileSet
	files []*file
	// texts are the contents of all files that people read, Go files included, by slash-separated path.
	texts map[string]string
	// paths are all files and folders.
	paths map[string]bool
}

// A file is one parsed Go file.
type file struct {
	// path is slash-separated and relative to the root. dir is its folder, "." for the root.
	path, dir string
	ast       *ast.File
	test      bool
}

// A problem is one breach of a rule.
type problem struct {
	at, text string
}

func (p problem) String() string { return p.at + ": " + p.text }

// program reports whether the file belongs to a command, to an example or to their shared code, which may do things that a library must not do.
func (f *file) program() bool {
	return f.ast.Name.Name == "main" || f.room() == "examples" || f.room() == "cmd" || f.room() == "bench" || f.shared()
}

// shared reports whether the file is code that programs share.
func (f *file) shared() bool { return strings.HasPrefix(f.dir, "internal/program/") }

// kit reports whether the package is for tests.
func (f *file) kit() bool { return strings.HasSuffix(path.Base(f.dir), "test") }

// room is the first element of the folder, "." for the root package.
func (f *file) room() string {
	room, _, _ := strings.Cut(f.dir, "/")
	return room
}

// imports returns the paths that the file imports.
func (f *file) imports() []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// version ends the path of a package that is named for the element before.
var version = regexp.MustCompile(`/v[0-9]+$`)

// localName returns the name under which the file knows an imported package, "" when it does not import it.
func (f *file) localName(importPath string) string {
	for _, spec := range f.ast.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p == importPath {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path.Base(version.ReplaceAllString(importPath, ""))
		}
	}
	return ""
}

// uses calls found for every mention of a name of an imported package below n.
func (f *file) uses(n ast.Node, importPath string, found func(pos token.Pos, name string)) {
	local := f.localName(importPath)
	if local == "" {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
				found(sel.Pos(), sel.Sel.Name)
			}
		}
		return true
	})
}

func (t *tree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

func (t *tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// add parses one file into the tree.
func (t *tree) add(name, text string) error {
	t.texts[name] = text
	t.addPath(name)
	if !strings.HasSuffix(name, ".go") {
		return nil
	}
	parsed, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.files = append(t.files, &file{
		path: name, dir: path.Dir(name), ast: parsed, test: strings.HasSuffix(name, "_test.go"),
	})
	return nil
}

func newTree() *tree {
	return &tree{fset: token.NewFileSet(), texts: make(map[string]string), paths: make(map[string]bool)}
}

// textual are the suffixes and names of the files that people read.
var textual = []string{".go", ".md", ".js", ".html", ".mod", ".yml", ".yaml", ".sh", "Makefile", ".ci/run", ".ci/tools"}

// loadTree reads the repository that contains this package.
func loadTree(t *testing.T) *tree {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if mod, err := os.ReadFile(filepath.Join(root, "go.mod")); err != nil || !strings.HasPrefix(string(mod), "module "+module+"\n") {
		t.Fatalf("%s is not the root of the repository: %v", root, err)
	}
	tr := newTree()
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !entry.IsDir() {
			tr.addPath(rel)
		} else {
			if entry.Name() == ".git" || entry.Name() == "testdata" || rel == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || !slices.ContainsFunc(textual, func(s string) bool { return strings.HasSuffix(rel, s) }) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return tr.add(rel, string(text))
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.files) < 10 {
		t.Fatalf("only %d Go files found in %s", len(tr.files), root)
	}
	return tr
}

// A rule looks for breaches in a tree.
type rule struct {
	name  string
	check func(*tree) []problem
	// why is printed once below the problems. It has the reason and what to do.
	why string
}

func rules() []rule {
	return slices.Concat(importRules(), codeRules(), hookRules(), seedRules(), docRules(), textRules(), proseRules(), snippetRules(), pageRules())
}

func TestHouseRules(t *testing.T) {
	tr := loadTree(t)
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			problems := r.check(tr)
			for _, p := range problems {
				t.Error(p)
			}
			if len(problems) > 0 {
				t.Log(r.why)
			}
		})
	}
}

// A breach is a small tree that a rule must refuse.
type breach struct {
	rule string
	// files are name and text in turn. A Go file without a package clause gets "package p".
	files []string
	// want is a part of every problem that must be found, one entry a problem. None means that the tree is clean.
	want []string
}

func TestRulesFindBreaches(t *testing.T) {
	tested := make(map[string]bool)
	for _, b := range slices.Concat(importBreaches(), codeBreaches(), hookBreaches(), seedBreaches(), docBreaches(), textBreaches(), proseBreaches(), snippetBreaches(), pageBreaches()) {
		tr := newTree()
		for i := 0; i < len(b.files); i += 2 {
			name, text := b.files[i], b.files[i+1]
			if strings.HasSuffix(name, ".go") && !strings.Contains(text, "package ") {
				text = "package p\n" + text
			}
			if err := tr.add(name, text); err != nil {
				t.Fatal(err)
			}
		}
		i := slices.IndexFunc(rules(), func(r rule) bool { return r.name == b.rule })
		if i < 0 {
			t.Fatalf("no rule %q", b.rule)
		}
		got := rules()[i].check(tr)
		ok := len(got) == len(b.want)
		for i := range got {
			ok = ok && strings.Contains(got[i].String(), b.want[i])
		}
		if !ok {
			t.Errorf("%s on %q: problems are %q, want %q", b.rule, b.files, got, b.want)
		}
		if len(b.want) > 0 {
			tested[b.rule] = true
		}
	}
	for _, r := range rules() {
		if !tested[r.name] {
			t.Errorf("rule %q has no snippet that breaks it: nobody knows whether it can fail", r.name)
		}
	}
}
