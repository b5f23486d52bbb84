package lint

import (
	"bytes"
	"flag"
	"go/ast"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files of testdata/api anew")

// The exported surface of each package stands in testdata/api, one declaration a paragraph. A change of it is a change of
// that file, which a reviewer sees. Write the files again with
//
//	go test ./internal/lint -run TestExportedAPI -update
func TestExportedAPI(t *testing.T) {
	tr := loadTree(t)
	want := make(map[string]string)
	for dir, text := range exportedAPI(tr) {
		want[strings.ReplaceAll(dir, "/", "_")+".txt"] = text
	}
	const folder = "testdata/api"
	if *update {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	const todo = "if the change is meant, run: go test ./internal/lint -run TestExportedAPI -update"
	for _, name := range slices.Sorted(maps.Keys(want)) {
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Errorf("got %v; %s, want no error", err, todo)
			continue
		}
		if added, removed := difference(string(got), want[name]); len(added)+len(removed) > 0 {
			t.Errorf("the exported API differs from %s/%s; %s\n+ %s\n- %s", folder, name, todo, strings.Join(added, "\n+ "), strings.Join(removed, "\n- "))
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := want[f.Name()]; !ok {
			t.Errorf("%s/%s is of no package; %s", folder, f.Name(), todo)
		}
	}
}

// exportedAPI returns the exported declarations of each package that others can import, by folder.
func exportedAPI(t *tree) map[string]string {
	declarations := make(map[string][]string)
	for _, f := range t.files {
		if f.test || f.program() || slices.Contains(strings.Split(f.dir, "/"), "internal") {
			continue
		}
		for _, decl := range f.ast.Decls {
			declarations[f.dir] = append(declarations[f.dir], exportedDecl(decl)...)
		}
	}
	out := make(map[string]string)
	for dir, list := range declarations {
		slices.Sort(list)
		name := dir
		if dir == "." {
			name = path.Base(module)
		}
		out[name] = strings.Join(slices.Compact(list), "\n\n") + "\n"
	}
	return out
}

// exportedDecl prints what of a declaration is exported, without comments and bodies, one text for each name of a group.
func exportedDecl(decl ast.Decl) (texts []string) {
	add := func(node any) {
		var b bytes.Buffer
		if err := (&printer.Config{Mode: printer.UseSpaces, Tabwidth: 4}).Fprint(&b, token.NewFileSet(), node); err != nil {
			texts = append(texts, err.Error())
			return
		}
		texts = append(texts, b.String())
	}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if !decl.Name.IsExported() {
			return nil
		}
		if decl.Recv != nil {
			if id := base(receiver(decl)); id == nil || !id.IsExported() {
				return nil
			}
		}
		add(&ast.FuncDecl{Recv: decl.Recv, Name: decl.Name, Type: decl.Type})
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					add(&ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{exportedType(spec)}})
				}
			case *ast.ValueSpec:
				for i, name := range spec.Names {
					if !name.IsExported() {
						continue
					}
					value := &ast.ValueSpec{Names: []*ast.Ident{name}, Type: spec.Type}
					if decl.Tok == token.CONST && i < len(spec.Values) {
						value.Values = spec.Values[i : i+1]
					}
					add(&ast.GenDecl{Tok: decl.Tok, Specs: []ast.Spec{value}})
				}
			}
		}
	}
	return texts
}

// exportedType is a copy of a type without comments and unexported members.
func exportedType(spec *ast.TypeSpec) *ast.TypeSpec {
	out := &ast.TypeSpec{Name: spec.Name, TypeParams: spec.TypeParams, Assign: spec.Assign, Type: spec.Type}
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		out.Type = &ast.StructType{Fields: exportedFields(typ.Fields)}
	case *ast.InterfaceType:
		out.Type = &ast.InterfaceType{Methods: exportedFields(typ.Methods)}
	}
	return out
}

func exportedFields(list *ast.FieldList) *ast.FieldList {
	out := &ast.FieldList{}
	for _, f := range list.List {
		field := &ast.Field{Type: f.Type, Tag: f.Tag}
		for _, name := range f.Names {
			if name.IsExported() {
				field.Names = append(field.Names, name)
			}
		}
		id := base(f.Type)
		if len(field.Names) > 0 || len(f.Names) == 0 && (id == nil || id.IsExported()) {
			out.List = append(out.List, field)
		}
	}
	return out
}

// difference returns the paragraphs that only one of the texts has.
func difference(old, now string) (added, removed []string) {
	a, b := strings.Split(old, "\n\n"), strings.Split(now, "\n\n")
	only := func(list, other []string) (out []string) {
		for _, text := range list {
			if !slices.Contains(other, text) {
				out = append(out, strings.TrimSpace(text))
			}
		}
		return out
	}
	return only(b, a), only(a, b)
}

func TestExportedAPIOfASnippet(t *testing.T) {
	tr := newTree()
	const source = `// Package a is.
package a

// T is.
type T struct {
	// A is.
	A, b int
	c    int
	D    func(x int) // D is.
	*E
	f
}

type I interface {
	M() error
	n()
}

type hidden struct{ X int }

func (hidden) Y()  {}
func (*T) M()      { println() }
func (T) m()       {}
func F[V any](v V) (err error) { return nil }

const (
	C, d = 1, 2
	G    = "g"
)

var V, w int
`
	for name, text := range map[string]string{
		"x/a.go": source, "x/a_test.go": "package a\nfunc Test() {}", "x/internal/b/b.go": "package b\nfunc B() {}",
		"examples/c/c.go": "package main\nfunc C() {}",
	} {
		if err := tr.add(name, text); err != nil {
			t.Fatal(err)
		}
	}
	const want = `const C = 1

const G = "g"

func (*T) M()

func F[V any](v V) (err error)

type I interface {
    M() error
}

type T struct {
    A   int
    D   func(x int)
    *E
}

var V int
`
	got := exportedAPI(tr)
	if len(got) != 1 || got["x"] != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	added, removed := difference(want, strings.Replace(want, "A   int", "B   int", 1))
	if len(added) != 1 || len(removed) != 1 || !strings.Contains(added[0], "B   int") || !strings.Contains(removed[0], "A   int") {
		t.Errorf("added %q, removed %q", added, removed)
	}
}
