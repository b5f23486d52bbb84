package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

func seedRules() []rule {
	return []rule{{
		name:  "seeds from one place",
		check: checkSeeds,
		why: "A test that fails by chance must say how to repeat it. Draw with seedtest.Rand(t), or from seedtest.Of(t): FOREBAY_SEED fixes them, and a " +
			"failed test prints the command that repeats it. If the values do not matter, use a constant seed.",
	}}
}

// generators are what math/rand offers to draw from a seed. Everything else there draws from the global generator.
var generators = []string{"New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf", "Rand", "PCG", "ChaCha8", "Source", "Source64", "Zipf"}

// unseeded are packages that need numbers which no two processes share.
var unseeded = []string{"internal/seedtest", "internal/porttest"}

// checkSeeds looks in tests and in packages for tests.
func checkSeeds(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		if !f.test && !f.kit() || slices.Contains(unseeded, f.dir) {
			continue
		}
		for _, pkg := range []string{"math/rand", "math/rand/v2"} {
			f.uses(f.ast, pkg, func(pos token.Pos, name string) {
				if !slices.Contains(generators, name) {
					problems = append(problems, problem{t.at(pos), "rand." + name + " draws from the global generator"})
				}
			})
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			for _, e := range seeds(n) {
				if f.readsClock(e) {
					problems = append(problems, problem{t.at(e.Pos()), "a seed from the clock"})
				}
			}
			return true
		})
	}
	return problems
}

var seedName = regexp.MustCompile(`(^s|S)eed`)

// seeds returns the expressions of a node that become seeds: the values of variables named so, the arguments of constructors of sources,
// and values converted to uint64, the type of a seed.
func seeds(n ast.Node) []ast.Expr {
	named := func(names, values []ast.Expr) (list []ast.Expr) {
		for i, value := range values {
			if id, ok := names[min(i, len(names)-1)].(*ast.Ident); ok && seedName.MatchString(id.Name) {
				list = append(list, value)
			}
		}
		return list
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		return named(n.Lhs, n.Rhs)
	case *ast.ValueSpec:
		var names []ast.Expr
		for _, id := range n.Names {
			names = append(names, id)
		}
		return named(names, n.Values)
	case *ast.KeyValueExpr:
		return named([]ast.Expr{n.Key}, []ast.Expr{n.Value})
	case *ast.CallExpr:
		switch called := n.Fun.(type) {
		case *ast.Ident:
			if called.Name == "uint64" {
				return n.Args
			}
		case *ast.SelectorExpr:
			if slices.Contains([]string{"NewPCG", "NewSource"}, called.Sel.Name) {
				return n.Args
			}
		}
	}
	return nil
}

// readsClock reports whether the expression is a reading of the clock as a number, such as time.Now().UnixNano(), even if it is converted.
func (f *file) readsClock(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch called := call.Fun.(type) {
	case *ast.Ident:
		return called.Name == "int64" && len(call.Args) == 1 && f.readsClock(call.Args[0])
	case *ast.SelectorExpr:
		now := false
		f.uses(called.X, "time", func(_ token.Pos, name string) { now = now || name == "Now" })
		return now && (strings.HasPrefix(called.Sel.Name, "Unix") || called.Sel.Name == "Nanosecond")
	}
	return false
}

func seedBreaches() []breach {
	const name = "seeds from one place"
	return []breach{
		{name, []string{"a_test.go", `import "math/rand/v2"; var seed = rand.Uint64()`}, []string{"a_test.go:2: rand.Uint64 draws"}},
		{name, []string{"a_test.go", `import mathrand "math/rand/v2"; func f() { g(mathrand.IntN(3), mathrand.Perm) }`}, []string{"rand.IntN draws", "rand.Perm draws"}},
		{name, []string{"drivers/a/a_test.go", `import "math/rand"; var n = rand.Int63()`}, []string{"drivers/a/a_test.go:2: rand.Int63 draws"}},
		{name, []string{"x/xtest/a.go", `import "math/rand/v2"; var n = rand.N(5)`}, []string{"x/xtest/a.go:2: rand.N draws"}},
		{name, []string{"a_test.go", `import "time"; func f() { seed := time.Now().UnixNano() }`}, []string{"a_test.go:2: a seed from the clock"}},
		{name, []string{"a_test.go", `import "time"; var n = uint64(time.Now().UnixNano())`}, []string{"a seed from the clock"}},
		{name, []string{"a_test.go", `import "time"; var c = config{seed: time.Now().UnixMilli()}`}, []string{"a seed from the clock"}},
		{name, []string{
			"a_test.go", `import ("math/rand"; "time"); var r = rand.New(rand.NewSource(time.Now().Unix()))`,
		}, []string{"a seed from the clock"}},
		{name, []string{
			"a_test.go", `import ("math/rand/v2"; "time"); var r *rand.Rand = rand.New(rand.NewPCG(seed, 0)); var began = time.Now().UnixNano(); var seed = r.Uint64()`,
			"b_test.go", `import "crypto/rand"; var id = rand.Text()`,
			"c.go", `import "math/rand/v2"; var n = rand.Uint64()`,
			"internal/porttest/a.go", `import "math/rand/v2"; var n = rand.IntN(5)`,
		}, nil},
	}
}
