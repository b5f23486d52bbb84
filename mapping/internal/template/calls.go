//go:build !forebay_notemplates

package template

import (
	"fmt"
	"slices"

	"github.com/google/go-jsonnet/ast"
)

// argument is one argument of a call, by position or by name.
type argument struct {
	name string
	expr expr
	lazy code
	node ast.Node
}

// arguments compiles the arguments of a call. keeps is for arguments that are evaluated at once, lazily for thunks of them.
func (c *compiler) arguments(n *ast.Apply, s *scope) (args []argument, height int, keeps, lazily bool) {
	add := func(name string, node ast.Node) {
		e := c.node(node, s)
		args = append(args, argument{name, e, e.lazy(false), node})
		height = max(height, e.height)
		keeps, lazily = keeps || e.keeps, lazily || e.keepsLazily(false)
	}
	for i := range n.Arguments.Positional {
		add("", n.Arguments.Positional[i].Expr)
	}
	for i := range n.Arguments.Named {
		add(string(n.Arguments.Named[i].Name), n.Arguments.Named[i].Arg)
	}
	return args, height, keeps, lazily
}

func slotsOf(params []param, args []argument) ([]int, error) {
	slots := make([]int, len(args))
	used := make([]bool, len(params))
	positional := 0
	for i, a := range args {
		at := -1
		if a.name == "" {
			if positional++; i < len(params) {
				at = i
			}
		} else {
			at = slices.IndexFunc(params, func(p param) bool { return p.name == a.name })
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
	args, height, _, lazily := c.arguments(n, s)
	strict, at := n.TailStrict, c.place(n)
	onlyPositional := len(n.Arguments.Named) == 0
	return expr{height: 1 + max(target.height, height), keeps: target.keeps || lazily, run: func(m *machine, e *env) value {
		callee := target.run(m, e)
		m.mark(at)
		f := m.function(callee)
		m.alloc(48 * len(f.params))
		slots := make([]value, len(f.params))
		absent(slots)
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
			scope := &env{}
			m.bind(scope, f, slots, true)
			m.tail = tailCall{f, scope}
			return value{kind: kindTail}
		}
		return m.invoke(f, slots, strict)
	}}
}

// known returns the target of a call if it is known at compile time. It is a function of the event, or a member of std that is written
// in Go.
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

// stdMember returns the name of std.name, unless a variable hides std.
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
	args, height, keeps, lazily := c.arguments(n, s)
	to, err := slotsOf(f.params, args)
	if err != nil {
		return c.fault(n, "%s: %v", name, err)
	}
	height++
	if name == "std.extVar" || name == "std.native" {
		return c.fault(n, "%s is not available in templates", name)
	}
	if e, ok := c.readCall(n, name, args, to); ok {
		return e
	}
	c.reads.call(name)
	params, native, lazy, at := f.params, f.native, f.lazy, c.place(n)
	if lazy {
		keeps = lazily
	}
	if len(params) == 0 {
		return expr{height: height, run: func(m *machine, _ *env) value {
			m.ticks(2)
			m.mark(at)
			return native(m, nil)
		}}
	}
	return expr{height: height, keeps: keeps, run: func(m *machine, e *env) value {
		m.ticks(6)
		m.nest(height + 8)
		before := m.stack
		slots := m.push(len(params))
		for i := range params {
			slots[i] = params[i].val
			if lazy {
				slots[i].kind = kindAbsent
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

// comprehension compiles the call that the parser makes of an array comprehension. Its elements then need neither a call nor an
// array each. It reports false for other calls.
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
	var condAt place
	if b, ok := body.(*ast.Conditional); ok {
		x := c.node(b.Cond, inner)
		cond, condAt, body = &x, c.place(b.Cond), b.BranchTrue
	}
	single := false // part makes one element, and not an array of them
	if b, ok := body.(*ast.Array); ok && len(b.Elements) == 1 {
		single, body = true, b.Elements[0].Expr
	}
	part := c.node(body, inner)
	source := n.Arguments.Positional[1].Expr
	in := c.node(source, s)
	inAt, bodyAt := c.place(source), c.place(body)
	height := max(part.height, in.height)
	if cond != nil {
		height = max(height, cond.height)
	}
	return expr{height: height + 1, keeps: true, run: func(m *machine, e *env) value {
		over := in.run(m, e)
		m.mark(inAt)
		m.want(over, kindArray)
		src := m.elements(over)
		m.nest(height)
		var out []value
		if single {
			g := &generator{src: src, run: part.run, env: e, height: part.height, keeps: part.keeps}
			n := src.len()
			if cond != nil {
				g.pos = m.positions(src, e, *cond, condAt)
				n = len(g.pos)
			}
			out = m.take(n)
			for k := range n {
				switch {
				case part.lit != nil:
					out = append(out, *part.lit)
				case part.isVar && part.up == 0:
					out = append(out, src.at(m, g.position(k)))
				default:
					out = append(out, g.pending(k))
				}
			}
			g.out = out
		} else {
			for i := range src.len() {
				m.alloc(112)
				scope := newScope1(e)
				scope.slot[0] = src.at(m, i)
				if cond != nil {
					ok := cond.run(m, &scope.env)
					m.mark(condAt)
					if !m.boolean(ok) {
						continue
					}
				}
				made := part.run(m, &scope.env)
				m.mark(bodyAt)
				more := m.array(made)
				m.step(1 + len(more))
				m.alloc(48 * len(more))
				out = append(out, more...)
			}
		}
		m.leave(height)
		return list(out)
	}}, true
}

// positions returns the positions of the elements of src that meet a condition.
func (m *machine) positions(src *array, e *env, cond expr, at place) (pos []uint32) {
	var scope *scope1
	for i := range src.len() {
		m.ticks(3)
		if scope == nil || cond.keeps {
			m.alloc(112)
			scope = newScope1(e)
		}
		scope.slot[0] = src.at(m, i)
		ok := cond.run(m, &scope.env)
		m.mark(at)
		if m.boolean(ok) {
			m.alloc(8) // an append that doubles its room
			pos = append(pos, uint32(i))
		}
	}
	return pos
}
