//go:build !forebay_notemplates

package template

import (
	"sync"

	"github.com/google/go-jsonnet/ast"
	"github.com/google/go-jsonnet/astgen"
)

// The standard library has two parts, as in the reference implementation. They are functions in Go, and functions in jsonnet. The syntax
// tree of the latter comes from the reference implementation and is compiled on first use. Both parts are immutable.

// goFunctions makes the table of the functions in Go. A parameter name that ends in "?" is optional.
func goFunctions() map[string]*function {
	table := map[string]*function{}
	for _, group := range []map[string]goFunction{
		stdCore(), stdMath(), stdStrings(), stdFormat(), stdArrays(), stdObjects(), stdManifest(),
	} {
		for name, g := range group {
			f := &function{native: g.native(name)}
			for _, p := range g.params {
				if p[len(p)-1] == '?' {
					p = p[:len(p)-1]
					f.params = append(f.params, param{name: p, optional: true, val: defaults[p]})
					continue
				}
				f.params = append(f.params, param{name: p})
			}
			table[name] = f
		}
	}
	return table
}

// defaults are the values of optional parameters by name. No two functions in Go want different ones.
var defaults = map[string]value{
	"keyF": identity, "onEmpty": none,
	"newline": text("\n"), "key_val_sep": text(": "),
	"indent_array_in_object": vZero, "quote_keys": vTrue,
}

// goFunction is a standard function in Go. All its arguments are evaluated before the call, from left to right.
type goFunction struct {
	params []string
	run    func(m *machine, args []value) value
	texts  int // so many arguments are strings, and with others the jsonnet version is called
}

func (g goFunction) native(name string) func(m *machine, args []value) value {
	if g.texts == 0 {
		return g.run
	}
	return func(m *machine, args []value) value {
		for i := range g.texts {
			if args[i].kind != kindString {
				return m.origin(name, args...)
			}
		}
		return g.run(m, args)
	}
}

// library is the standard library. It is built on first use and never changes.
type library struct {
	goOnce  sync.Once
	inGo    map[string]*function
	stdOnce sync.Once
	all     *layer          // the members of std
	origins map[string]code // the jsonnet versions of functions that are also written in Go
}

var std library

// stdFunctions returns the functions written in Go.
func stdFunctions() map[string]*function {
	std.goOnce.Do(func() { std.inGo = goFunctions() })
	return std.inGo
}

// stdLayer returns the object std as the compiler makes it from the syntax tree, with the Go functions in their places.
func stdLayer() *layer {
	std.stdOnce.Do(func() { std.all, std.origins = compileStd() })
	return std.all
}

func compileStd() (*layer, map[string]code) {
	c := &compiler{std: true}
	e := c.node(astgen.StdAst, nil)
	if len(c.faults) > 0 {
		panic("mapping: the standard library does not compile: " + c.faults[0].Msg)
	}
	var m machine
	m.reset(nil, false, Budget{}.withDefaults(0))
	l := e.run(&m, nil).ref.(*object).core.(*layer)
	all := &layer{locals: l.locals, asserts: l.asserts}
	origins := map[string]code{}
	seen := map[string]bool{}
	for _, f := range l.fields {
		if g := stdFunctions()[f.name]; g != nil {
			origins[f.name] = f.run
			f.run, f.val, f.plus = nil, value{kind: kindFunction, ref: g}, false
		}
		seen[f.name] = true
		all.add(f)
	}
	for name, g := range stdFunctions() {
		if !seen[name] {
			all.add(field{name: name, hide: ast.ObjectFieldHidden, val: value{kind: kindFunction, ref: g}})
		}
	}
	all.add(field{name: "thisFile", hide: ast.ObjectFieldHidden, val: text("template")})
	return all, origins
}

// origin calls the jsonnet version of a function, for arguments that the Go version does not handle.
func (m *machine) origin(name string, args ...value) value {
	self := stdObject(m).ref.(*object)
	f := std.origins[name](m, m.layerEnv(self, std.all, 0))
	return m.call(m.function(f), args...)
}

// stdHas reports whether the library has a member.
func stdHas(name string) bool { return stdLayer().find(name) != nil }

// stdObject returns the object std of this evaluation. The values that it caches belong to the evaluation.
func stdObject(m *machine) value {
	if m.std == nil {
		m.std = &object{core: stdLayer(), checked: true}
	}
	return value{kind: kindObject, ref: m.std}
}
