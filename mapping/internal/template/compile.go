//go:build !forebay_notemplates

package template

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/google/go-jsonnet/ast"

	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/mapping/internal/tape"
)

// compiler turns the desugared syntax tree into closures. It resolves names. At run time a variable is a number of scopes to go up
// and a slot.
type compiler struct {
	compat bool
	// std is set while the standard library is compiled. Its text has no places and no faults to report.
	std    bool
	source source
	faults []*Fault
	places []textRange
	around textRange // of the innermost expression that the user wrote
	reads  HeaderReads
}

// expr is a compiled expression with its known properties.
type expr struct {
	run    code
	lit    *value // its value, if it is a constant
	height int    // nested expressions
	// keeps says that a thunk or a function may refer to the scope after the evaluation. Otherwise the scope is reused.
	keeps bool
	// a variable
	isVar    bool
	up, slot int
}

type scope struct {
	names  []string
	used   map[int]bool // the variables that something refers to
	parent *scope
}

func (s *scope) resolve(name string) (up, slot int, ok bool) {
	for ; s != nil; s = s.parent {
		for i, n := range s.names {
			if n == name {
				if s.used == nil {
					s.used = map[int]bool{}
				}
				s.used[i] = true
				return up, i, true
			}
		}
		up++
	}
	return 0, 0, false
}

func (c *compiler) fault(n ast.Node, format string, args ...any) expr {
	c.faultAt(n.Loc(), format, args...)
	return constant(null)
}

// faultAt reports a fault at l, or at the expression around it if l has no place.
func (c *compiler) faultAt(l *ast.LocationRange, format string, args ...any) {
	at := c.around.begin
	if l != nil && l.IsSet() {
		at = l.Begin
	}
	c.faults = append(c.faults, c.source.at(at, fmt.Sprintf(format, args...)))
}

func constant(v value) expr {
	p := new(value)
	*p = v
	return expr{run: func(*machine, *env) value { return *p }, lit: p, height: 1}
}

// lazy returns code that gives the value of e without evaluating it. While the slots of a scope are being filled, a variable must
// not be read, so it is a thunk too.
func (e expr) lazy(filling bool) code {
	run := e.run
	switch {
	case e.lit != nil:
		return run
	case e.isVar && !filling:
		up, slot := e.up, e.slot
		return func(_ *machine, v *env) value {
			for range up {
				v = v.parent
			}
			return v.slots[slot]
		}
	}
	return func(m *machine, v *env) value {
		m.alloc(112)
		return value{kind: kindThunk, ref: &thunk{run: run, env: v}}
	}
}

// keepsLazily is keeps for the code that lazy returns.
func (e expr) keepsLazily(filling bool) bool { return e.lit == nil && (!e.isVar || filling) }

func (c *compiler) node(n ast.Node, s *scope) expr { return c.compile(n, s, false) }

// compile compiles an expression. tail says that its value is the result of a function.
func (c *compiler) compile(n ast.Node, s *scope, tail bool) expr {
	if l := n.Loc(); l != nil && l.IsSet() {
		around := c.around
		c.around = textRange{l.Begin, l.End}
		defer func() { c.around = around }()
	}
	switch n := n.(type) {
	case *ast.LiteralNull:
		return constant(null)
	case *ast.LiteralBoolean:
		return constant(boolean(n.Value))
	case *ast.LiteralNumber:
		f, err := strconv.ParseFloat(n.OriginalString, 64)
		if err != nil {
			return c.fault(n, "the number is out of the range of a 64-bit float")
		}
		return constant(number(f))
	case *ast.LiteralString:
		return constant(text(tape.ValidUTF8(n.Value)))
	case *ast.Var:
		return c.variable(n, s)
	case *ast.Self:
		return expr{height: 1, run: func(_ *machine, e *env) value { return value{kind: kindObject, ref: e.self} }}
	case *ast.Array:
		return c.array(n, s)
	case *ast.Binary:
		return c.binary(n, s, tail)
	case *ast.Unary:
		return c.unary(n, s)
	case *ast.Conditional:
		at := c.place(n.Cond)
		cond, yes, no := c.node(n.Cond, s), c.compile(n.BranchTrue, s, tail), c.compile(n.BranchFalse, s, tail)
		return expr{height: 1 + max(cond.height, yes.height, no.height), keeps: cond.keeps || yes.keeps || no.keeps, run: func(m *machine, e *env) value {
			v := cond.run(m, e)
			m.mark(at)
			if m.boolean(v) {
				return yes.run(m, e)
			}
			return no.run(m, e)
		}}
	case *ast.Error:
		at := c.place(n)
		msg := c.node(n.Expr, s)
		return expr{height: 1 + msg.height, keeps: msg.keeps, run: func(m *machine, e *env) value {
			v := msg.run(m, e)
			m.mark(at)
			m.fail("%s", excerpt(m.toString(v)))
			return null
		}}
	case *ast.Index:
		return c.index(n, s)
	case *ast.SuperIndex:
		return c.super(n, n.Index, s, (*machine).get)
	case *ast.InSuper:
		return c.super(n, n.Index, s, func(m *machine, self *object, super int, name string) value {
			_, ok := m.findField(self.core, super, name)
			return boolean(ok)
		})
	case *ast.Local:
		return c.local(n, s, tail)
	case *ast.Function:
		return c.function(n, s)
	case *ast.Apply:
		return c.apply(n, s, tail)
	case *ast.DesugaredObject:
		return c.object(n, s)
	case *ast.Import, *ast.ImportStr, *ast.ImportBin:
		return c.fault(n, "import is not available in templates; write its content into the template")
	}
	return c.fault(n, "unknown expression %T", n)
}

// super compiles an operation on a field of super.
func (c *compiler) super(n, index ast.Node, s *scope, do func(m *machine, self *object, super int, name string) value) expr {
	at, name := c.place(n), c.node(index, s)
	return expr{height: 1 + name.height, keeps: name.keeps, run: func(m *machine, e *env) value {
		v := name.run(m, e)
		m.mark(at)
		return do(m, e.self, e.super+1, m.string(v))
	}}
}

func (c *compiler) variable(n *ast.Var, s *scope) expr {
	up, slot, ok := s.resolve(string(n.Id))
	switch {
	case ok && up == 0:
		return expr{height: 1, isVar: true, slot: slot, run: func(m *machine, e *env) value { return m.forceAt(&e.slots[slot]) }}
	case ok:
		return expr{height: 1, isVar: true, up: up, slot: slot, run: func(m *machine, e *env) value {
			for range up {
				e = e.parent
			}
			return m.forceAt(&e.slots[slot])
		}}
	case n.Id == "std" || n.Id == "$std":
		return expr{height: 1, run: func(m *machine, _ *env) value { return stdObject(m) }}
	}
	if f, ok := eventFunctions[string(n.Id)]; ok {
		c.reads.call(string(n.Id)) // as a value it can be called with anything
		return constant(value{kind: kindFunction, ref: f})
	}
	return c.fault(n, "unknown variable: %s; declare it with local, quote it if it is a text, or write Body(%q) for a field of the event", n.Id, n.Id)
}

func (c *compiler) array(n *ast.Array, s *scope) expr {
	elems := make([]code, len(n.Elements))
	height, keeps := 0, false
	for i := range n.Elements {
		e := c.node(n.Elements[i].Expr, s)
		elems[i] = e.lazy(false)
		keeps = keeps || e.keepsLazily(false)
		height = max(height, e.height)
	}
	return expr{height: 1 + height, keeps: keeps, run: func(m *machine, e *env) value {
		m.step(len(elems))
		m.alloc(64 + 48*len(elems))
		a := &array{elems: make([]value, len(elems))}
		for i, el := range elems {
			a.elems[i] = el(m, e)
		}
		return value{kind: kindArray, ref: a}
	}}
}

func (c *compiler) local(n *ast.Local, s *scope, tail bool) expr {
	inner := &scope{parent: s}
	for i := range n.Binds {
		c.declare(inner, n.Loc(), "local variable", string(n.Binds[i].Variable))
	}
	binds := make([]code, len(n.Binds))
	height := 0
	for i := range n.Binds {
		e := c.node(n.Binds[i].Body, inner)
		binds[i] = e.lazy(true)
		height = max(height, e.height)
	}
	body := c.compile(n.Body, inner, tail)
	return expr{height: 1 + max(height, body.height), keeps: true, run: func(m *machine, e *env) value {
		m.step(1)
		m.alloc(64 + 48*len(binds))
		v := &env{parent: e, slots: make([]value, len(binds))}
		if e != nil {
			v.self, v.super = e.self, e.super
		}
		for i, b := range binds {
			v.slots[i] = b(m, v)
		}
		return body.run(m, v)
	}}
}

// declare adds a name to a scope and reports duplicates, which the parser finds only for locals.
func (c *compiler) declare(s *scope, at *ast.LocationRange, what, name string) {
	if !c.std && slices.Contains(s.names, name) {
		c.faultAt(at, "duplicate %s: %s", what, name)
	}
	s.names = append(s.names, name)
}

func (c *compiler) function(n *ast.Function, s *scope) expr {
	inner := &scope{parent: s}
	for i := range n.Parameters {
		c.declare(inner, &n.Parameters[i].LocRange, "parameter", string(n.Parameters[i].Name))
	}
	params := make([]param, len(n.Parameters))
	height := 0
	for i := range n.Parameters {
		p := &n.Parameters[i]
		params[i].name = string(p.Name)
		if p.DefaultArg != nil {
			d := c.node(p.DefaultArg, inner)
			params[i].def, params[i].optional = d.run, true
			height = max(height, d.height)
		}
	}
	body := c.compile(n.Body, inner, true)
	height = 1 + max(height, body.height)
	brief := !body.keeps && !slices.ContainsFunc(params, func(p param) bool { return p.optional })
	return expr{height: 1, keeps: true, run: func(m *machine, e *env) value {
		m.alloc(128)
		return value{kind: kindFunction, ref: &function{params: params, body: body.run, env: e, height: height, brief: brief}}
	}}
}

func (c *compiler) index(n *ast.Index, s *scope) expr {
	if name, ok := c.stdMember(n, s); ok {
		if f := stdFunctions()[name]; f != nil {
			if name == "extVar" || name == "native" {
				return c.fault(n, "std.%s is not available in templates", name)
			}
			return constant(value{kind: kindFunction, ref: f})
		}
		if !c.std && !stdHas(name) {
			return c.fault(n, "the standard library has no member %q; use a function of jsonnet", name)
		}
	}
	at := c.place(n)
	target, index := c.node(n.Target, s), c.node(n.Index, s)
	height, keeps := 1+max(target.height, index.height), target.keeps || index.keeps
	if index.lit != nil && index.lit.kind == kindString {
		name := index.lit.str
		return expr{height: height, keeps: keeps, run: func(m *machine, e *env) value {
			v := target.run(m, e)
			m.mark(at)
			if v.kind == kindObject {
				return m.get(v.ref.(*object), 0, name)
			}
			return m.index(v, text(name))
		}}
	}
	return expr{height: height, keeps: keeps, run: func(m *machine, e *env) value {
		v := target.run(m, e)
		i := index.run(m, e)
		m.mark(at)
		return m.index(v, i)
	}}
}

func (c *compiler) object(n *ast.DesugaredObject, s *scope) expr {
	inner := &scope{parent: s}
	for i := range n.Locals {
		inner.names = append(inner.names, string(n.Locals[i].Variable))
	}
	height := 0
	note := func(e expr) expr {
		height = max(height, e.height)
		return e
	}
	locals := make([]code, len(n.Locals))
	for i := range n.Locals {
		locals[i] = note(c.node(n.Locals[i].Body, inner)).run
	}
	type plan struct {
		name expr
		at   place
		field
	}
	fields := make([]plan, len(n.Fields))
	fixed := true // all names are constants, each other one
	proto := layer{locals: locals}
	for i := range n.Fields {
		f := &n.Fields[i]
		p := plan{name: note(c.node(f.Name, s)), field: field{hide: f.Hide, plus: f.PlusSuper}}
		body := note(c.node(f.Body, inner))
		if body.lit != nil && !f.PlusSuper {
			p.val = *body.lit
		} else {
			p.run = body.run
		}
		if p.name.lit != nil && p.name.lit.kind == kindString {
			p.field.name = p.name.lit.str
			if !proto.add(p.field) {
				fixed = false
				if !c.std {
					return c.fault(n.Fields[i].Name, "duplicate field name: %q", p.field.name)
				}
			}
		} else {
			fixed = false
		}
		p.at = c.place(n.Fields[i].Name)
		fields[i] = p
	}
	for i := range n.Asserts {
		proto.asserts = append(proto.asserts, note(c.node(n.Asserts[i], inner)).run)
	}
	height++
	for i := range locals {
		if !inner.used[i] {
			locals[i] = nil // most often $, which every outermost object has
		}
	}
	if fixed {
		proto.visible = proto.names(false)
		return expr{height: 1, keeps: true, run: func(m *machine, e *env) value {
			m.step(1)
			m.alloc(240)
			l := proto
			l.env = e
			return newObject(&l)
		}}
	}
	asserts := proto.asserts
	return expr{height: height, keeps: true, run: func(m *machine, e *env) value {
		m.step(1 + len(fields))
		m.alloc(240 + 128*len(fields))
		l := &layer{fields: make([]field, 0, len(fields)), locals: locals, asserts: asserts, env: e}
		for i := range fields {
			name := fields[i].name.run(m, e)
			m.mark(fields[i].at)
			if name.kind == kindNull {
				continue
			}
			f := fields[i].field
			if name.kind != kindString {
				m.fail("a field name must be a string, not %s", kindNames[name.kind])
			}
			if f.name = name.str; !l.add(f) {
				m.fail("duplicate field name: %s", f.name)
			}
		}
		return newObject(l)
	}}
}

// excerpt cuts a text for an error message.
func excerpt(s string) string {
	const limit = 500
	if len(s) <= limit {
		return s
	}
	return textcut.Head(s, limit) + "..."
}
