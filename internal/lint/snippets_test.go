package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"regexp"
	"strings"
)

func snippetRules() []rule {
	return []rule{{
		name:  "snippets fit the code",
		check: checkSnippets,
		why:   "Readers copy the code of docs and comments: its calls have the arguments that the functions take, its literals the fields that the types have.",
	}}
}

// snippet is the start of a call or literal of a package, such as forebay.Open( or forebay.Options{.
var snippet = regexp.MustCompile(`\b([a-z]\w*)\.([A-Z]\w*)[({]`)

// checkSnippets looks at the calls and literals in texts and comments whose package has a name of this repository. Those with an
// ellipsis or of other packages of that name are skipped, as far as they can be told.
func checkSnippets(t *tree) []problem {
	known, funcs := exportedNames(t), exportedFuncs(t)
	var problems []problem
	eachProse(t, func(at, text string) {
		for _, m := range snippet.FindAllStringSubmatchIndex(text, -1) {
			pkg, name := text[m[2]:m[3]], text[m[4]:m[5]]
			expr, err := parser.ParseExpr(text[m[0] : m[1]+closing(text[m[1]-1:])])
			if err != nil {
				continue
			}
			switch expr := expr.(type) {
			case *ast.CallExpr:
				if fits := funcs[pkg+"."+name]; fits != nil && len(expr.Args) > 0 && !fits(len(expr.Args)) {
					problems = append(problems, problem{at, fmt.Sprintf("%s.%s does not take %d arguments", pkg, name, len(expr.Args))})
				}
			case *ast.CompositeLit:
				if !known.packages[pkg][name] {
					continue
				}
				for _, elt := range expr.Elts {
					kv, ok := elt.(*ast.KeyValueExpr)
					if !ok {
						continue
					}
					if key, ok := kv.Key.(*ast.Ident); ok && !known.has(pkg, name, key.Name) {
						problems = append(problems, problem{at, fmt.Sprintf("%s.%s has no field %s", pkg, name, key.Name)})
					}
				}
			}
		}
	})
	return sorted(problems)
}

// closing returns the length of text from just after its first bracket through the matching bracket, or 0 if there is none.
func closing(text string) int {
	depth := 0
	for i, r := range text {
		switch {
		case strings.ContainsRune("([{", r):
			depth++
		case strings.ContainsRune(")]}", r):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}

// exportedFuncs says of each exported function, by package and name, which numbers of arguments it takes. Packages of one name count
// together.
func exportedFuncs(t *tree) map[string]func(args int) bool {
	funcs := make(map[string]func(int) bool)
	for _, f := range t.files {
		if f.test || f.program() {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !fn.Name.IsExported() {
				continue
			}
			params, variadic := 0, false
			for _, field := range fn.Type.Params.List {
				params += max(1, len(field.Names))
				_, variadic = field.Type.(*ast.Ellipsis)
			}
			name := f.ast.Name.Name + "." + fn.Name.Name
			other := funcs[name]
			funcs[name] = func(args int) bool {
				return args == params || variadic && args >= params-1 || other != nil && other(args)
			}
		}
	}
	return funcs
}

func snippetBreaches() []breach {
	code := "// Package x is.\npackage x\n// T is.\ntype T struct { A int }\nfunc F(a, b int) {}\nfunc V(a ...int) {}\n"
	return []breach{
		{"snippets fit the code", []string{"a.md", "```go\nx.F(1, 2, 3)\nx.T{A: 1, B: 2}\n```\n", "x/x.go", code}, []string{"not take 3", "no field B"}},
		{"snippets fit the code", []string{"x/x.go", code, "y/y.go", "// Use x.F(y(1, 2)).\npackage y"}, []string{"y.go:1: x.F does not take 1"}},
		{"snippets fit the code", []string{
			"a.md", "`x.F()`, x.F(a\nb), `x.F(…)`, `z.F(1)`\n\n```go\nx.F(y(1, 2), \"b\")\nx.V(1, 2, 3)\nx.T{A: 1}\nx.U{B: 1}\n```\n", "x/x.go", code,
		}, nil},
	}
}
