package mapping

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-jsonnet/ast"
	"github.com/lestrrat-go/strftime"
)

// eventFunctions are the functions through which a template reads the record (the globals of the
// published service). Their parameters may be named.
var eventFunctions = map[string]*function{
	"Ip":        {name: "Ip", native: func(m *machine, _ []value) value { return m.ip() }},
	"BodyStr":   {name: "BodyStr", native: func(m *machine, _ []value) value { return m.bodyText() }},
	"HeaderStr": {name: "HeaderStr", native: func(m *machine, _ []value) value { return m.headerText() }},
	"Now": {
		name: "Now", params: []param{{name: "format", optional: true}},
		native: func(m *machine, args []value) value { return m.now(args[0]) },
	},
	"Body": {
		name: "Body", lazy: true,
		params: []param{{name: "path", optional: true, val: value{kind: kindTail}}, {name: "default", optional: true, val: value{kind: kindTail}}},
		native: func(m *machine, args []value) value {
			path := ""
			if args[0].kind != kindTail {
				path = m.string(m.force(args[0]))
			}
			m.step(len(path))
			m.alloc(16 * len(path))
			p, err := parsePath(path, m.compat)
			if err != nil {
				m.fail("Body: the path %.100q: %v", path, err)
			}
			return m.body(&p, args[1])
		},
	},
	"Header": {
		name: "Header", lazy: true,
		params: []param{{name: "header", optional: true, val: value{kind: kindTail}}, {name: "default", optional: true, val: value{kind: kindTail}}},
		native: func(m *machine, args []value) value {
			name := ""
			if args[0].kind != kindTail {
				name = m.string(m.force(args[0]))
			}
			m.step(len(name) >> 2)
			return m.header(name, args[1])
		},
	},
}

// body compiles a call of Body whose path is a constant.
func (c *compiler) body(n *ast.Apply, args []argument, to []int) (expr, bool) {
	path, at := "", c.place(n)
	var def *argument
	height := 0
	for i := range args {
		height = max(height, args[i].expr.height)
		if to[i] == 1 {
			def = &args[i]
			continue
		}
		lit := args[i].expr.lit
		if lit == nil {
			return expr{}, false
		}
		if lit.kind != kindString {
			return c.fault(n, "Body: the path must be a string, not %s", kindNames[lit.kind]), true
		}
		path = lit.str
	}
	p, err := parsePath(path, c.compat)
	if err != nil {
		var pe *PathError
		errors.As(err, &pe)
		return c.fault(n, "Body: the path %q: %v", path, pe), true
	}
	if def == nil {
		return expr{height: 8, run: func(m *machine, _ *env) value {
			m.mark(at)
			return m.body(&p, value{kind: kindTail})
		}}, true
	}
	lazy := def.lazy
	if lit := def.expr.lit; lit != nil {
		return expr{height: 8, run: func(m *machine, _ *env) value {
			m.mark(at)
			return m.body(&p, *lit)
		}}, true
	}
	return expr{height: 8 + height, run: func(m *machine, e *env) value {
		m.mark(at)
		return m.body(&p, lazy(m, e))
	}}, true
}

// body is Body(path, default). An absent default has kindTail.
func (m *machine) body(p *FieldPath, def value) value {
	m.step(1 + len(p.steps))
	if d, ok := m.r.Document.(FieldDocument); ok && len(p.steps) > 0 {
		return m.field(d, p, def)
	}
	t, fail := m.r.parse(m.compat)
	if fail == nil {
		at, passed, ok := t.lookup(0, p.steps, m.compat)
		m.step(passed >> 4)
		if ok {
			if m.compat && at == 0 && t.nodes[0].kind != nodeObject {
				panic(&cause{reason: TemplateFailed, err: errors.New("Body(): the body is not an object")})
			}
			return m.fromDoc(t, at)
		}
		if def.kind == kindTail {
			fail = m.r.parsed().missing(*p, true, m.compat)
		}
	}
	if def.kind == kindTail || fail != nil && m.compat {
		panic(fail)
	}
	return m.force(def)
}

// header compiles a call of Header whose name is a constant and whose default is one, or absent.
func (c *compiler) header(n *ast.Apply, args []argument, to []int) (expr, bool) {
	name, def, at := "", value{kind: kindTail}, c.place(n)
	for i := range args {
		if lit := args[i].expr.lit; lit != nil && to[i] == 0 && lit.kind != kindString {
			return c.fault(n, "Header: the name must be a string, not %s", kindNames[lit.kind]), true
		}
	}
	for i := range args {
		lit := args[i].expr.lit
		if lit == nil {
			return expr{}, false
		}
		if to[i] == 0 {
			name = lit.str
		} else {
			def = *lit
		}
	}
	if name == "" {
		return expr{}, false
	}
	name = http.CanonicalHeaderKey(name)
	return expr{height: 8, run: func(m *machine, _ *env) value {
		m.mark(at)
		return m.header(name, def)
	}}, true
}

// header is Header(name, default). An absent default has kindTail.
func (m *machine) header(name string, def value) value {
	m.step(1)
	if name == "" {
		l := &layer{}
		for _, f := range m.r.headerFields(m.compat) {
			m.alloc(128 + len(f.name) + len(f.value))
			l.add(field{name: validUTF8(f.name), hide: ast.ObjectFieldInherit, val: text(validUTF8(f.value))})
		}
		return newObject(l)
	}
	if v, ok := m.r.header(name, m.compat); ok {
		return text(validUTF8(v))
	}
	if def.kind == kindTail {
		panic(&cause{reason: MissingValue, err: fmt.Errorf("Header(%.100q): the request has no such header; give a default as the second argument if it may be missing", name)})
	}
	return m.force(def)
}

func (m *machine) ip() value {
	from := len(m.buf)
	m.buf = appendIP(m.buf, m.r, m.compat)
	return m.made(from)
}

func (m *machine) bodyText() value {
	if m.bodyStr.kind == kindNull {
		b, fail := m.r.rawBody()
		if fail != nil {
			panic(fail)
		}
		m.step(len(b) >> 6)
		m.known = true
		m.bodyStr = text(validUTF8(unsafeString(b)))
	}
	return m.bodyStr
}

func (m *machine) headerText() value {
	if m.headerStr.kind == kindNull {
		s := m.r.headersText(m.compat)
		m.alloc(len(s))
		m.known = true
		m.headerStr = text(validUTF8(s))
	}
	return m.headerStr
}

// now compiles a call of Now whose format is a constant: the format is parsed once.
func (c *compiler) now(n *ast.Apply, args []argument) (expr, bool) {
	if len(args) == 0 {
		return expr{height: 8, run: func(m *machine, _ *env) value { return m.now(null) }}, true
	}
	lit := args[0].expr.lit
	if lit == nil {
		return expr{}, false
	}
	if lit.kind != kindString {
		return c.fault(n, "Now: the format must be a string, not %s", kindNames[lit.kind]), true
	}
	f, err := parseTimeFormat(lit.str)
	if err != nil {
		return c.fault(n, "Now: the format %q: %v", lit.str, err), true
	}
	return expr{height: 8, run: func(m *machine, _ *env) value { return m.formatTime(f) }}, true
}

// now is Now(format); null stands for no format.
func (m *machine) now(format value) value {
	if format.kind == kindNull {
		from := len(m.buf)
		m.buf = appendDatetime(m.buf, m.r.Received)
		return m.made(from)
	}
	s := m.string(format)
	m.step(len(s))
	m.alloc(32 * len(s))
	f, err := parseTimeFormat(s)
	if err != nil {
		m.fail("Now: the format %.100q: %v", s, err)
	}
	return m.formatTime(f)
}

func (m *machine) formatTime(f *strftime.Strftime) value {
	from := len(m.buf)
	if !m.r.Received.IsZero() {
		m.buf = f.FormatBuffer(m.buf, m.r.Received.UTC())
	}
	m.alloc(len(m.buf) - from)
	return m.made(from)
}

// parseTimeFormat parses a format of strftime, with %f for the three digits of the milliseconds.
func parseTimeFormat(s string) (*strftime.Strftime, error) {
	return strftime.New(s, strftime.WithSpecification('f', milliseconds{}))
}

type milliseconds struct{}

func (milliseconds) Append(b []byte, t time.Time) []byte {
	ms := t.Nanosecond() / 1_000_000
	b = append(b, byte('0'+ms/100), 0, 0)
	putDigits(b[len(b)-2:], ms%100)
	return b
}
