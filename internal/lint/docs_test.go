package lint

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

func docRules() []rule {
	return []rule{
		{
			name:  "exported names are documented",
			check: checkDocs,
			why: "Say what it promises: units, who owns a slice and for how long, which calls may run at once, which errors " +
				"come. Not what the code does line by line.",
		},
		{
			name:  "packages are documented",
			check: checkPackageDocs,
			why:   "Every package begins with a comment \"Package NAME ...\" (a command with \"Command NAME ...\"), in doc.go or its main file.",
		},
	}
}

// understood are methods of well-known interfaces, whose contract needs no words unless it differs.
var understood = []string{
	"Error", "Unwrap", "Is", "As", "String", "Len", "Less", "Swap", "Close", "Read", "Write",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "ServeHTTP",
}

func checkDocs(t *tree) []problem {
	var problems []problem
	report := func(pos token.Pos, what string) {
		problems = append(problems, problem{t.at(pos), what + " has no doc comment"})
	}
	for _, f := range t.files {
		if f.test || f.ast.Name.Name == "main" || f.room() == "internal" && strings.HasSuffix(f.dir, "lint") {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Doc != nil || !decl.Name.IsExported() {
					continue
				}
				if decl.Recv == nil {
					report(decl.Pos(), "function "+decl.Name.Name)
				} else if id := base(receiver(decl)); id != nil && id.IsExported() && !slices.Contains(understood, decl.Name.Name) {
					report(decl.Pos(), "method "+id.Name+"."+decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					checkSpec(decl, spec, t.line, report)
				}
			}
		}
	}
	return problems
}

func receiver(fn *ast.FuncDecl) ast.Expr {
	e := fn.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		default:
			return e
		}
	}
}

func checkSpec(decl *ast.GenDecl, spec ast.Spec, line func(token.Pos) int, report func(token.Pos, string)) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		if decl.Doc == nil && spec.Doc == nil && spec.Comment == nil {
			report(spec.Pos(), "type "+spec.Name.Name)
		}
		checkMembers(spec, line, report)
	case *ast.ValueSpec:
		// A comment above a group covers the group.
		if decl.Doc != nil || spec.Doc != nil || spec.Comment != nil {
			return
		}
		for _, id := range spec.Names {
			if id.IsExported() {
				report(id.Pos(), id.Name)
			}
		}
	}
}

// checkMembers wants words for exported fields and interface methods. A comment above a run of fields without an
// empty line between them covers the run. A single field is covered by the comment of its type.
func checkMembers(spec *ast.TypeSpec, line func(token.Pos) int, report func(token.Pos, string)) {
	var members []*ast.Field
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		members = typ.Fields.List
		if len(members) == 1 {
			return
		}
	case *ast.InterfaceType:
		members = typ.Methods.List
	}
	covered := false
	for i, m := range members {
		if i > 0 && m.Doc == nil && line(m.Pos()) > line(members[i-1].End())+1 {
			covered = false
		}
		covered = covered || m.Doc != nil
		if covered || m.Comment != nil {
			continue
		}
		for _, id := range m.Names {
			if id.IsExported() {
				report(id.Pos(), spec.Name.Name+"."+id.Name)
			}
		}
	}
}

func checkPackageDocs(t *tree) []problem {
	documented := make(map[string]bool)
	names := make(map[string]string)
	for _, f := range t.files {
		if f.test {
			continue
		}
		names[f.dir] = f.ast.Name.Name
		if f.ast.Doc == nil {
			continue
		}
		text := f.ast.Doc.Text()
		if strings.HasPrefix(text, "Package "+f.ast.Name.Name+" ") ||
			f.ast.Name.Name == "main" && strings.HasPrefix(text, "Command "+path.Base(f.dir)+" ") {
			documented[f.dir] = true
		}
	}
	var problems []problem
	for dir, name := range names {
		if !documented[dir] {
			problems = append(problems, problem{dir, "package " + name + " has no package comment"})
		}
	}
	slices.SortFunc(problems, func(a, b problem) int { return strings.Compare(a.at, b.at) })
	return problems
}

func docBreaches() []breach {
	return []breach{
		{"exported names are documented", []string{"a.go", "func F() {}"}, []string{"function F has no"}},
		{"exported names are documented", []string{"a.go", "type T struct{}"}, []string{"type T has no"}},
		{"exported names are documented", []string{"a.go", "// T is.\ntype T struct{}\nfunc (t *T) M() {}"}, []string{"method T.M has no"}},
		{"exported names are documented", []string{"a.go", "const A = 1"}, []string{"A has no"}},
		{"exported names are documented", []string{"a.go", "// T is.\ntype T struct {\n\tA, b int\n\tC int // C is.\n}"}, []string{"T.A has no"}},
		{"exported names are documented", []string{"a.go", "// T is.\ntype T interface{ M() }"}, []string{"T.M has no"}},
		{"exported names are documented", []string{
			"a.go", "// T is.\ntype T struct {\n\t// A and B are.\n\tA int\n\tB int\n\n\tC int\n}",
		}, []string{"T.C has no"}},
		{"exported names are documented", []string{
			"a.go", "// T is.\ntype T struct {\n\t// A and B are.\n\tA int\n\tB int\n\tc int\n}\nfunc (T) Error() string { return \"\" }\n" +
				"// Values.\nconst (\n\tA = 1\n\tB = 2\n)\ntype t struct{ A int }\nfunc (t) M() {}\n",
			"a_test.go", "func F() {}", "bench/a.go", "package main; type T int",
		}, nil},
		{"packages are documented", []string{"x/a.go", "package x"}, []string{"package x has no"}},
		{"packages are documented", []string{"x/a.go", "// Package y is.\npackage x"}, []string{"package x has no"}},
		{"packages are documented", []string{
			"x/a.go", "package x", "x/doc.go", "// Package x is.\npackage x", "c/main.go", "// Command c is.\npackage main",
		}, nil},
	}
}
