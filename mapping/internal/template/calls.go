package template

import (
	"fmt"

	"github.com/google/go-jsonnet/ast"
)

// argument is one argument of a call, by position or by name.
type argument struct {
	name string
	expr expr
	lazy code
	node ast.Node
}

func (c *compiler) arguments(n *ast.Apply, s *scope) (args []argument, height int) {
	add := func(name string, node ast.Node) {
		e := c.node(node, s)
		args = append(args, argument{name, e, e.lazy(false), node})
		height = max(height, e.height)
	}
	for i := range n.Arguments.Positional {
		add("", n.Arguments.Positional[i].Expr)
	}
	for i := range n.Arguments.Named {
		add(string(n.Arguments.Named[i].Name), n.Arguments.Named[i].Arg)
	}
	return args, height
}

// slotsOf says for each argument which parameter it is for.
func slotsOf(params []param, args []argument) ([]int, error) {
	slots := make([]int, len(args))
	var taken [64]bool
	used := taken[:0]
	used = append(used, make([]bool, len(params))...)
	positional := 0
	for i, a := range args {
		at := -1
		if a.name == "" {
			if positional++; i < len(params) {
				at = i
			}
		} else {
			for k := range params {
				if params[k].name == a.name {
					at = k
				}
			}
			if at < 0 {
				return nil, fmt.Errorf("the function has no parameter %q", a.name)
			}
			if used[at] {
				return nil, fmt.Errorf("the argument %q is given twice", a.name)
			}
		}
		if at >= 0 {
			used[at] = true
			slots[i] = at
		}
	}
	if positional > len(params) {
		return nil, fmt.Errorf("the function takes at most %d argument(s), not %d", len(params), positional)
	}
	for k := range params {
		if !used[k] && !params[k].optional {
			return nil, fmt.Errorf("the argument %q is missing", params[k].name)
		}
	}
	return slots, nil
}

func (c *compiler) apply(n *ast.Apply, s *scope, tail bool) expr {
	if f, name := c.known(n.Target, s); f != nil {
		if name == "std.$flatMapArray" {
			if e, ok := c.comprehension(n, s); ok {
				return e
			}
		}
		return c.applyKnown(n, f, name, s)
	}
	target := c.node(n.Target, s)
	args, height := c.arguments(n, s)
	strict, at := n.TailStrict, c.place(n)
	onlyPositional := len(n.Arguments.Named) == 0
	return expr{height: 1 + max(target.height, height), run: func(m *machine, e *env) value {
		callee := target.run(m, e)
		m.mark(at)
		f := m.function(callee)
		m.alloc(48 * len(f.params))
		slots := make([]value, len(f.params))
		for i := range slots {
			slots[i].kind = kindTail
		}
		if onlyPositional {
			if len(args) > len(slots) {
				m.fail("the function takes %d argument(s), but got %d", len(slots), len(args))
			}
			for i := range args {
				slots[i] = args[i].lazy(m, e)
			}
		} else {
			to, err := slotsOf(f.params, args)
			if err != nil {
				m.fail("%v", err)
			}
			for i := range args {
				slots[to[i]] = args[i].lazy(m, e)
			}
		}
		if strict && tail && f.native == nil {
			m.alloc(64)
			m.tail = tailCall{f, m.bind(f, slots, true)}
			return value{kind: kindTail}
		}
		return m.invoke(f, slots, strict)
	}}
}

// known returns the function that a call's target is, if that is known before the program runs: a function of the
// event, or a member of the standard library that is written in Go.
func (c *compiler) known(target ast.Node, s *scope) (*function, string) {
	switch t := target.(type) {
	case *ast.Var:
		if _, _, ok := s.resolve(string(t.Id)); !ok {
			return eventFunctions[string(t.Id)], string(t.Id)
		}
	case *ast.Index:
		if name, ok := c.stdMember(t, s); ok {
			return stdFunctions()[name], "std." + name
		}
	}
	return nil, ""
}

// stdMember reports that an index is std.name, of the standard library and not of a variable of that name.
func (c *compiler) stdMember(n *ast.Index, s *scope) (string, bool) {
	v, ok := n.Target.(*ast.Var)
	if !ok || v.Id != "std" && v.Id != "$std" {
		return "", false
	}
	if _, _, shadowed := s.resolve(string(v.Id)); shadowed {
		return "", false
	}
	name, ok := n.Index.(*ast.LiteralString)
	if !ok {
		return "", false
	}
	return name.Value, true
}

func (c *compiler) applyKnown(n *ast.Apply, f *function, name string, s *scope) expr {
	args, height := c.arguments(n, s)
	to, err := slotsOf(f.params, args)
	if err != nil {
		return c.fault(n, "%s: %v", name, err)
	}
	height++
	switch name {
	case "std.extVar", "std.native":
		return c.fault(n, "%s is not available in templates", name)
	case "Body":
		if e, ok := c.body(n, args, to); ok {
			return e
		}
	case "Header":
		if e, ok := c.header(n, args, to); ok {
			return e
		}
	case "Now":
		if e, ok := c.now(n, args); ok {
			return e
		}
	}
	params, native, lazy, at := f.params, f.native, f.lazy, c.place(n)
	if len(params) == 0 {
		return expr{height: height, run: func(m *machine, _ *env) value {
			m.step(1)
			m.mark(at)
			return native(m, nil)
		}}
	}
	return expr{height: height, run: func(m *machine, e *env) value {
		m.enter(height + 8)
		before := m.stack
		slots := m.push(len(params))
		for i := range params {
			slots[i] = params[i].val
			if lazy {
				slots[i].kind = kindTail
			}
		}
		for i := range args {
			if lazy {
				slots[to[i]] = args[i].lazy(m, e)
			} else {
				slots[to[i]] = args[i].expr.run(m, e)
			}
		}
		m.mark(at)
		v := native(m, slots)
		m.pop(before, slots)
		m.leave(height + 8)
		return v
	}}
}

// comprehension compiles the call that the parser makes of an array comprehension, so that its elements need neither a
// call nor an array each. It reports false for calls of another form.
func (c *compiler) comprehension(n *ast.Apply, s *scope) (expr, bool) {
	if len(n.Arguments.Positional) != 2 {
		return expr{}, false
	}
	f, ok := n.Arguments.Positional[0].Expr.(*ast.Function)
	if !ok || len(f.Parameters) != 1 || f.Parameters[0].DefaultArg != nil {
		return expr{}, false
	}
	inner := &scope{parent: s, names: []string{string(f.Parameters[0].Name)}}
	body := f.Body
	var cond *expr
	if b, ok := body.(*ast.Conditional); ok {
		x := c.node(b.Cond, inner)
		cond, body = &x, b.BranchTrue
	}
	var elem code // makes one element
	var part expr // or makes an array of them
	if b, ok := body.(*ast.Array); ok && len(b.Elements) == 1 {
		part = c.node(b.Elements[0].Expr, inner)
		elem = part.lazy(false)
	} else {
		part = c.node(body, inner)
	}
	source := n.Arguments.Positional[1].Expr
	in := c.node(source, s)
	inAt, bodyAt := c.place(source), c.place(body)
	condAt := bodyAt
	if b, ok := f.Body.(*ast.Conditional); ok {
		condAt = c.place(b.Cond)
	}
	height := max(part.height, in.height)
	if cond != nil {
		height = max(height, cond.height)
	}
	return expr{height: height + 1, run: func(m *machine, e *env) value {
		over := in.run(m, e)
		m.mark(inAt)
		elems := m.array(over)
		m.enter(height)
		var out []value
		for i := range elems {
			m.step(1)
			m.alloc(112)
			scope := &struct {
				env
				slot [1]value
			}{env: env{parent: e}, slot: [1]value{elems[i]}}
			v := &scope.env
			v.slots = scope.slot[:]
			if e != nil {
				v.self, v.super = e.self, e.super
			}
			if cond != nil {
				ok := cond.run(m, v)
				m.mark(condAt)
				if !m.boolean(ok) {
					continue
				}
			}
			if elem != nil {
				m.alloc(48)
				out = append(out, elem(m, v))
				continue
			}
			made := part.run(m, v)
			m.mark(bodyAt)
			more := m.array(made)
			m.step(len(more))
			m.alloc(48 * len(more))
			out = append(out, more...)
		}
		m.leave(height)
		return list(out)
	}}, true
}
