package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

func hookRules() []rule {
	return []rule{{
		name:  "hooks share no plain variables",
		check: checkHooks,
		why: "A hook of a driver, a disk or a server runs on other goroutines, even between two calls of the test. A variable that it shares with the test " +
			"has an atomic type, or both sides lock a mutex. Otherwise the test fails by chance, and only with the race detector.",
	}}
}

// hooks are the fields that a test sets to a function, and the functions that take one, whose function runs on other goroutines.
var hooks = []string{"Before", "After", "importer", "respond", "hook", "setHooks", "HandlerFunc", "HandleFunc", "InjectorFunc"}

// checkHooks looks for a local variable that a hook uses and that changes in it, or in the test after it. A hook that locks a mutex is right, and so is
// an assignment of several results, as of the object that opens after the hook is set and whose calls run it.
func checkHooks(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		used := false
		ast.Inspect(f.ast, func(n ast.Node) bool {
			used = used || len(hooksOf(n)) > 0
			return !used
		})
		if !f.test || !used {
			continue
		}
		info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
		config := types.Config{Importer: noImporter{}, Error: func(error) {}, DisableUnusedImportCheck: true, FakeImportC: true}
		_, _ = config.Check(f.dir, t.fset, []*ast.File{f.ast}, info) // the errors are about names of other files
		for _, decl := range f.ast.Decls {
			var bodies []*ast.FuncLit
			var written []ast.Expr
			opened := make(map[ast.Expr]bool)
			ast.Inspect(decl, func(n ast.Node) bool {
				bodies = append(bodies, hooksOf(n)...)
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						written = append(written, n.Lhs...)
					}
					for _, e := range n.Lhs {
						opened[e] = len(n.Lhs) > len(n.Rhs)
					}
				case *ast.IncDecStmt:
					written = append(written, n.X)
				}
				return true
			})
			for _, body := range bodies {
				if locks(body) {
					continue
				}
				inside := func(pos token.Pos) bool { return body.Pos() <= pos && pos < body.End() }
				shared := make(map[types.Object]bool)
				ast.Inspect(body, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						v, ok := info.Uses[id].(*types.Var)
						shared[v] = ok && !v.IsField() && v.Parent() != v.Pkg().Scope() && !inside(v.Pos())
					}
					return true
				})
				for _, e := range written {
					id := base(e)
					if id == nil || id.Pos() < body.Pos() || !shared[info.Uses[id]] {
						continue
					}
					if _, field := e.(*ast.SelectorExpr); inside(id.Pos()) || !opened[e] && !field {
						problems = append(problems, problem{t.at(id.Pos()), fmt.Sprintf("%s changes, and the hook of line %d uses it", id.Name, t.line(body.Pos()))})
					}
				}
			}
		}
	}
	return problems
}

// hooksOf returns the functions that n sets as hooks.
func hooksOf(n ast.Node) (bodies []*ast.FuncLit) {
	set := func(to, value ast.Expr) {
		name, _ := to.(*ast.Ident)
		if sel, ok := to.(*ast.SelectorExpr); ok {
			name = sel.Sel
		}
		if body, ok := value.(*ast.FuncLit); ok && name != nil && slices.Contains(hooks, name.Name) {
			bodies = append(bodies, body)
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, value := range n.Rhs {
			if n.Tok == token.ASSIGN {
				set(n.Lhs[i], value)
			}
		}
	case *ast.KeyValueExpr:
		set(n.Key, n.Value)
	case *ast.CallExpr:
		for _, value := range n.Args {
			set(n.Fun, value)
		}
	}
	return bodies
}

func locks(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok {
			sel, ok := call.Fun.(*ast.SelectorExpr)
			found = found || ok && strings.HasSuffix(sel.Sel.Name, "Lock")
		}
		return true
	})
	return found
}

func hookBreaches() []breach {
	const name = "hooks share no plain variables"
	return []breach{
		{name, []string{"a_test.go", `func TestA() {
			away := true
			mem.Before = func() error { if away { return nil }; return nil }
			away = false
		}`}, []string{"a_test.go:5: away changes, and the hook of line 4 uses it"}},
		{name, []string{"a_test.go", `import "net/http"; func TestA() {
			n, seen := 0, make(map[string]int)
			serve(http.HandlerFunc(func() { n++; seen["a"] = 1 }))
			f := &twist{importer: func() { n = 2 }}
		}`}, []string{"n changes", "seen changes", "n changes", "n changes"}},
		{name, []string{"a_test.go", `func (w *world) serve() { serve(HandlerFunc(func() { w.n++ })) }`}, []string{"w changes"}},
		{name, []string{"a_test.go", `func TestA() {
			var mu sync.Mutex; var e *engine; var away atomic.Bool; n := 0; before := true
			before = false
			mem.After = func() { mu.Lock(); defer mu.Unlock(); n++ }
			mem.Before = func() { own := before; own = e.open && away.Load(); _ = own }
			e, err = open(func() { n++ })
			away.Store(true)
		}`}, nil},
	}
}
