package lint

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func codeRules() []rule {
	return []rule{
		{
			name:  "no sleeping tests",
			check: checkSleep,
			why: "A sleep is too short on a loaded machine and too long on every other. Wait for the condition (a channel, " +
				"Flush), or run the test in synctest.Test, where the clock is fake and a sleep costs nothing.",
		},
		{
			name:  "failures say what was wanted",
			check: checkFailures,
			why:   "A message of values alone sends its reader to the code of the test. Write: got X, want Y, with the input before it.",
		},
		{
			name:  "bubbles on one processor",
			check: checkBubbles,
			why: "With the race detector and two processors, Go 1.26 ends a program whose bubble reads timers. Import internal/synctest, " +
				"which says more.",
		},
		{
			name:  "no init functions",
			check: checkInit,
			why:   "What happens on import cannot be chosen, ordered or tested. Do it in a constructor, or in a variable's initial value.",
		},
		{
			name:  "no mutable package variables",
			check: checkGlobals,
			why: "Two engines in one process must not share state. Put it into the type that owns it. Allowed are error " +
				"sentinels, compiled constants and tables that are never written (sync.OnceValue makes one on first use), and a sync.Pool.",
		},
		{
			name:  "libraries are silent",
			check: checkSilent,
			why: "A library speaks through its return values and the *slog.Logger it was given, or warns through driverkit/warnlog; standard output belongs to the program. " +
				"Only a package for tests may speak with a process that it has started.",
		},
		{
			name:  "the disk behind its seam",
			check: checkSeam,
			why:   "The local level reaches the disk through the disk of its options alone, so that tests can crash it and fail every operation.",
		},
		{
			name:  "context comes first",
			check: checkContext,
			why:   "A context is the first parameter, named ctx, of every function that takes one; a *testing.T may stand before it.",
		},
	}
}

// ownBubbles is the package whose bubbles the race detector survives.
const ownBubbles = "github.com/forebay/forebay/internal/synctest"

// checkBubbles leaves testing/synctest to what shows users how they test, with the exported API alone.
func checkBubbles(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		if f.test && f.dir != "forebaytest" && !f.program() && slices.Contains(f.imports(), "testing/synctest") {
			problems = append(problems, problem{t.at(f.ast.Pos()), "testing/synctest in a test"})
		}
	}
	return problems
}

// bubbled are folders whose tests run entirely in bubbles, including callbacks from a library.
var bubbled = []string{"internal/sim", "cluster/internal/instance", "cluster/internal/lease", "cluster/internal/linearizability"}

// checkSleep accepts a sleep in a function that runs in a bubble, that is, one that uses synctest or calls a helper of its package
// that does.
func checkSleep(t *tree) []problem {
	usesBubble := func(f *file, n ast.Node) (found bool) {
		for _, p := range []string{"testing/synctest", ownBubbles} {
			f.uses(n, p, func(token.Pos, string) { found = true })
		}
		return found
	}
	helpers := make(map[string]bool) // by folder and name
	for _, f := range t.files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test && usesBubble(f, fn) {
				helpers[f.dir+" "+fn.Name.Name] = true
			}
		}
	}
	var problems []problem
	for _, f := range t.files {
		if !f.test || slices.Contains(bubbled, f.dir) {
			continue
		}
		for _, decl := range f.ast.Decls {
			fake := usesBubble(f, decl)
			ast.Inspect(decl, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if id, ok := call.Fun.(*ast.Ident); ok && helpers[f.dir+" "+id.Name] {
						fake = true
					}
				}
				return true
			})
			f.uses(decl, "time", func(pos token.Pos, name string) {
				if name == "Sleep" && !fake {
					problems = append(problems, problem{t.at(pos), "time.Sleep in a test"})
				}
			})
		}
	}
	return problems
}

func checkInit(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				problems = append(problems, problem{t.at(fn.Pos()), "init function"})
			}
		}
	}
	return problems
}

// processWide are the folders of packages for tests that keep something for the process, such as a setting that they change or the seeds of running
// tests.
var processWide = []string{"internal/synctest", "internal/seedtest"}

// checkGlobals looks for package variables of library packages that are assigned, or whose type exists to be written.
// Names are resolved by the type checker, so that a local variable of the same name does not count; imported packages
// are not needed for that.
func checkGlobals(t *tree) []problem {
	packages := make(map[string][]*ast.File)
	for _, f := range t.files {
		if !f.test && !f.program() && !slices.Contains(processWide, f.dir) {
			packages[f.dir] = append(packages[f.dir], f.ast)
		}
	}
	var problems []problem
	for dir, files := range packages {
		info := &types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)}
		config := types.Config{
			Importer: noImporter{}, Error: func(error) {}, DisableUnusedImportCheck: true, FakeImportC: true,
		}
		// The error is about the imports that are not there.
		pkg, _ := config.Check(dir, t.fset, files, info)
		global := func(e ast.Expr) (string, bool) {
			id := base(e)
			if id == nil {
				return "", false
			}
			v, ok := info.Uses[id].(*types.Var)
			return id.Name, ok && v.Parent() == pkg.Scope()
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				var written []ast.Expr
				if madeOnce(n, global) {
					return false
				}
				switch n := n.(type) {
				case *ast.AssignStmt:
					if n.Tok != token.DEFINE {
						written = n.Lhs
					}
				case *ast.IncDecStmt:
					written = []ast.Expr{n.X}
				case *ast.RangeStmt:
					if n.Tok == token.ASSIGN {
						written = []ast.Expr{n.Key, n.Value}
					}
				case *ast.UnaryExpr:
					if n.Op == token.AND {
						written = []ast.Expr{n.X}
					}
				case *ast.CallExpr:
					if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
						written = n.Args[:1]
					}
				}
				for _, e := range written {
					if name, ok := global(e); ok {
						problems = append(problems, problem{t.at(n.Pos()), "package variable " + name + " is written, or its address is taken"})
					}
				}
				return true
			})
			problems = append(problems, mutableTypes(t, f)...)
		}
	}
	slices.SortFunc(problems, func(a, b problem) int { return strings.Compare(a.at, b.at) })
	return problems
}

// madeOnce reports whether n makes a constant on its first use, as in once.Do(func() { ... }) on a field of the very package
// variable that the function writes.
func madeOnce(n ast.Node, global func(ast.Expr) (string, bool)) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	do, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || do.Sel.Name != "Do" {
		return false
	}
	name, ok := global(do.X)
	if !ok {
		return false
	}
	fn, ok := call.Args[0].(*ast.FuncLit)
	if !ok {
		return false
	}
	own := true
	ast.Inspect(fn, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok {
			for _, e := range assign.Lhs {
				if other, ok := global(e); ok && other != name {
					own = false
				}
			}
		}
		return true
	})
	return own
}

// mutableTypes finds package variables whose declared type only makes sense when it changes, and exported ones that
// are not errors.
func mutableTypes(t *tree, f *ast.File) []problem {
	var problems []problem
	for _, decl := range f.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			spec := spec.(*ast.ValueSpec)
			exprs := append([]ast.Expr{spec.Type}, spec.Values...)
			for _, e := range exprs {
				if name := changing(e); name != "" {
					problems = append(problems, problem{t.at(spec.Pos()), fmt.Sprintf("package variable %s is a %s", spec.Names[0].Name, name)})
				}
			}
			for _, id := range spec.Names {
				if id.IsExported() && !strings.HasPrefix(id.Name, "Err") {
					problems = append(problems, problem{t.at(id.Pos()), "exported variable " + id.Name + " can be changed by every importer"})
				}
			}
		}
	}
	return problems
}

// changing names the type of a variable, as it is written, if it is a lock, a counter, a channel or the like.
func changing(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return changing(e.Type)
	case *ast.UnaryExpr:
		return changing(e.X)
	case *ast.StarExpr:
		return changing(e.X)
	case *ast.IndexExpr:
		return changing(e.X)
	case *ast.ChanType:
		return "channel"
	case *ast.CallExpr:
		if id, ok := e.Fun.(*ast.Ident); ok && id.Name == "make" && len(e.Args) > 0 {
			if name := changing(e.Args[0]); name != "" {
				return name
			}
			return "value of make, which waits to be filled"
		}
		if id, ok := e.Fun.(*ast.Ident); ok && id.Name == "new" && len(e.Args) > 0 {
			return changing(e.Args[0])
		}
	case *ast.SelectorExpr:
		pkg, ok := e.X.(*ast.Ident)
		if !ok {
			return ""
		}
		name := pkg.Name + "." + e.Sel.Name
		if pkg.Name == "atomic" || slices.Contains([]string{"sync.Mutex", "sync.RWMutex", "sync.Once", "sync.Map", "sync.WaitGroup", "sync.Cond"}, name) {
			return name
		}
	}
	return ""
}

// base returns the variable that is written when e is, for example v of v, v.f, v[i], *v and (v).
func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

type noImporter struct{}

func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

func checkSilent(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		if f.test || f.program() || f.kit() {
			continue
		}
		report := func(pos token.Pos, what string) {
			problems = append(problems, problem{t.at(pos), what + " in a library package"})
		}
		f.uses(f.ast, "fmt", func(pos token.Pos, name string) {
			if strings.HasPrefix(name, "Print") {
				report(pos, "fmt."+name)
			}
		})
		f.uses(f.ast, "os", func(pos token.Pos, name string) {
			if name == "Stdout" || name == "Stderr" || name == "Stdin" || name == "Exit" {
				report(pos, "os."+name)
			}
		})
		f.uses(f.ast, "log/slog", func(pos token.Pos, name string) {
			if name == "Default" && f.dir == "driverkit/warnlog" { // for options without a logger
				return
			}
			if slices.Contains([]string{"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log"}, name) {
				report(pos, "slog."+name)
			}
		})
		if slices.Contains(f.imports(), "log") {
			report(f.ast.Name.Pos(), "import of log")
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if id, ok := call.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
					report(call.Pos(), id.Name)
				}
			}
			return true
		})
	}
	return problems
}

// fileCall matches what os offers to reach files by name.
var fileCall = regexp.MustCompile(`^(Open.*|Create.*|New(File|Root)|Read(Dir|File|Link)|WriteFile|Mkdir.*|Remove.*|Rename|L?[Ss]tat|Truncate|Ch(mod|own|times|dir)|Lchown|Link|Symlink|SameFile|CopyFS|DirFS|TempDir|Getwd)$`)

// valuesAlone matches a format without words.
var valuesAlone = regexp.MustCompile(`^(%[-+#.0-9]*[a-zA-Z]|[^a-zA-Z%]|%%)*$`)

func checkFailures(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || !f.test && !f.kit() {
				return true
			}
			sel, isMethod := call.Fun.(*ast.SelectorExpr)
			format, isText := call.Args[0].(*ast.BasicLit)
			if !isMethod || !isText || sel.Sel.Name != "Errorf" && sel.Sel.Name != "Fatalf" {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "fmt" {
				return true
			}
			if text, err := strconv.Unquote(format.Value); err == nil && valuesAlone.MatchString(text) {
				problems = append(problems, problem{t.at(call.Pos()), format.Value + " has no words"})
			}
			return true
		})
	}
	return problems
}

func checkSeam(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		if f.dir != "buffer" || f.test {
			continue
		}
		for _, pkg := range []string{"os", "io/ioutil"} {
			f.uses(f.ast, pkg, func(pos token.Pos, name string) {
				if fileCall.MatchString(name) {
					problems = append(problems, problem{t.at(pos), pkg + "." + name + " passes by the disk of the options"})
				}
			})
		}
		if slices.Contains(f.imports(), "syscall") {
			problems = append(problems, problem{f.path, "imports syscall"})
		}
	}
	return problems
}

func checkContext(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		local := f.localName("context")
		if local == "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			fn, ok := n.(*ast.FuncDecl)
			if !ok || f.test {
				return true
			}
			params := fn.Type.Params.List
			first := 0
			if names := params[:min(1, len(params))]; len(names) == 1 && len(names[0].Names) == 1 && names[0].Names[0].Name == "t" {
				first = 1
			}
			for i, param := range params {
				sel, ok := param.Type.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Context" {
					continue
				}
				if id, ok := sel.X.(*ast.Ident); !ok || id.Name != local {
					continue
				}
				if i > first || len(param.Names) == 1 && param.Names[0].Name != "ctx" && param.Names[0].Name != "_" {
					problems = append(problems, problem{t.at(param.Pos()), "context of " + fn.Name.Name + " is not a first parameter ctx"})
				}
			}
			return true
		})
	}
	return problems
}

func codeBreaches() []breach {
	return []breach{
		{"failures say what was wanted", []string{"a_test.go", `func TestA(t *T) { t.Errorf("%+v, %d%%\n", 1, 2); t.Fatalf("got %d, want 2", 1); fmt.Errorf("%v", 1) }`}, []string{`a_test.go:2: "%+v, %d%%\n" has no words`}},
		{"no sleeping tests", []string{"a_test.go", `import "time"; func TestA() { time.Sleep(1) }`}, []string{"a_test.go:2: time.Sleep"}},
		{"no sleeping tests", []string{"a_test.go", `import clock "time"; func TestA() { clock.Sleep(1) }`}, []string{"time.Sleep"}},
		{"no sleeping tests", []string{
			"a_test.go", `import ("time"; "testing/synctest"); func TestA() { synctest.Test(nil, func() { time.Sleep(1) }) }`,
			"a.go", `import "time"; func a() { time.Sleep(1) }`,
			"b_test.go", `import "time"; func TestB() { bubble(func() { time.Sleep(1) }) }`,
			"internal/sim/a_test.go", `import "time"; func a() { time.Sleep(1) }`,
			"c_test.go", `import "testing/synctest"; func bubble(f func()) { synctest.Test(nil, f) }`,
		}, nil},
		{"no sleeping tests", []string{
			"a_test.go", `import ("time"; "github.com/forebay/forebay/internal/synctest"); func TestA() { synctest.Test(nil, func() { time.Sleep(1) }) }`,
		}, nil},
		{"bubbles on one processor", []string{"buffer/a_test.go", `import "testing/synctest"`}, []string{"buffer/a_test.go:1: testing/synctest"}},
		{"bubbles on one processor", []string{
			"forebaytest/a_test.go", `import "testing/synctest"`,
			"examples/recipes/a_test.go", `import "testing/synctest"`,
			"buffer/a_test.go", `import "github.com/forebay/forebay/internal/synctest"`,
		}, nil},
		{"no init functions", []string{"a.go", "func init() {}"}, []string{"a.go:2: init"}},
		{"no init functions", []string{"a.go", "type t int; func (t) init() {}"}, nil},
		{"no mutable package variables", []string{"a.go", "var n int; func f() { n++ }"}, []string{"variable n is written"}},
		{"no mutable package variables", []string{"a.go", "var n int; func f() { n = 1 }"}, []string{"variable n is written"}},
		{"no mutable package variables", []string{"a.go", "var n int; func f() *int { return &n }"}, []string{"variable n is written"}},
		{"no mutable package variables", []string{"a.go", "var n = map[int]int{}", "b.go", "func f() { n[1] = 2; delete(n, 1) }"}, []string{"n is written", "n is written"}},
		{"no mutable package variables", []string{"a.go", "var n struct{ x []int }; func f() { n.x[0] = 1 }"}, []string{"n is written"}},
		{"no mutable package variables", []string{"a.go", `import "sync"; var mu sync.Mutex`}, []string{"mu is a sync.Mutex"}},
		{"no mutable package variables", []string{"a.go", `import "sync/atomic"; var n atomic.Int64`}, []string{"n is a atomic.Int64"}},
		{"no mutable package variables", []string{"a.go", "var c = make(chan int)"}, []string{"c is a channel"}},
		{"no mutable package variables", []string{
			"a.go", "var lazy struct{ once sync.Once; v int }; var n int; func f() { lazy.once.Do(func() { n = 1 }) }",
		}, []string{"n is written"}},
		{"no mutable package variables", []string{
			"a.go", "var lazy struct{ once sync.Once; v int }; func f() { lazy.once.Do(func() { lazy.v = 1 }) }",
		}, nil},
		{"no mutable package variables", []string{"a.go", "var Default = 1"}, []string{"exported variable Default"}},
		{"no mutable package variables", []string{
			"a.go", `import ("errors"; "sync"); var ErrA = errors.New("a"); var table = []int{1}; var pool sync.Pool
			func f() { table := table; table[0] = 2; errs := ErrA; errs = nil; _ = errs; pool.Get() }`,
			"b_test.go", "var n int; func f() { n++ }", "bench/a.go", "package main; var n int; func main() { n++ }",
		}, nil},
		{"libraries are silent", []string{"a.go", `import "fmt"; func f() { fmt.Println() }`}, []string{"fmt.Println"}},
		{"libraries are silent", []string{"a.go", `import "os"; var w = os.Stderr`}, []string{"os.Stderr"}},
		{"libraries are silent", []string{"a.go", `import "log"; func f() { log.Fatal() }`}, []string{"import of log"}},
		{"libraries are silent", []string{"a.go", `import "log/slog"; func f() { slog.Info("") }`}, []string{"slog.Info"}},
		{"libraries are silent", []string{"a.go", `func f() { println() }`}, []string{"println"}},
		{"libraries are silent", []string{
			"a.go", `import ("fmt"; "log/slog"); func f(l *slog.Logger) { l.Info(fmt.Sprint()) }`,
			"examples/x/main.go", `package main; import "fmt"; func main() { fmt.Println() }`,
			"x/xtest/a.go", `import "os"; var r = os.Stdin`,
		}, nil},
		{"the disk behind its seam", []string{"buffer/a.go", `import "os"; var f = os.Open`}, []string{"os.Open passes by"}},
		{"the disk behind its seam", []string{"buffer/a.go", `import sys "os"; var f = sys.MkdirAll`}, []string{"os.MkdirAll passes by"}},
		{"the disk behind its seam", []string{"buffer/a.go", `import "os"; var m os.FileMode`}, nil},
		{"the disk behind its seam", []string{"buffer/dir/a.go", `import "os"; var f = os.Open`}, nil},
		{"context comes first", []string{"a.go", `import "context"; func F(n int, ctx context.Context) {}`}, []string{"context of F"}},
		{"context comes first", []string{"a.go", `import "context"; func F(c context.Context) {}; func G(ctx context.Context, n int) {}; func h(t tb, ctx context.Context) {}`}, []string{"context of F"}},
	}
}
