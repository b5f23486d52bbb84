//go:build !forebay_notemplates

package template

import (
	"fmt"
	"net/http"

	"github.com/google/go-jsonnet/ast"
	"github.com/lestrrat-go/strftime"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// eventFunctions are the functions through which a program reads the event. Their parameters may be named.
var eventFunctions = map[string]*function{
	"Ip":        {native: func(m *machine, _ []value) value { return m.ip() }},
	"BodyStr":   {native: func(m *machine, _ []value) value { return m.bodyText() }},
	"HeaderStr": {native: func(m *machine, _ []value) value { return m.headerText() }},
	"Now": {
		params: []param{{name: "format", optional: true}},
		native: func(m *machine, args []value) value { return m.now(args[0]) },
	},
	"Body": {
		lazy: true, params: []param{{name: "path", optional: true, val: none}, {name: "default", optional: true, val: none}},
		native: func(m *machine, args []value) value {
			path := m.optionalString(args[0])
			m.step(len(path))
			m.alloc(16 * len(path))
			p, err := tape.ParsePath(path, m.compat)
			if err != nil {
				m.fail("Body: the path %.100q: %v", path, err)
			}
			return m.body(&p, args[1])
		},
	},
	"Header": {
		lazy: true, params: []param{{name: "header", optional: true, val: none}, {name: "default", optional: true, val: none}},
		native: func(m *machine, args []value) value {
			name := m.optionalString(args[0])
			m.step(len(name) >> 2)
			return m.header(http.CanonicalHeaderKey(name), args[1])
		},
	},
}

var none = value{kind: kindAbsent}

// optionalString is the empty string for an absent argument.
func (m *machine) optionalString(v value) string {
	if v.kind == kindAbsent {
		return ""
	}
	return m.string(m.force(v))
}

// readCall compiles a call of Body, Header or Now whose first argument is a constant or absent, so that the path, name or format
// is parsed once. It reports false for other calls.
func (c *compiler) readCall(n *ast.Apply, name string, args []argument, to []int) (expr, bool) {
	what := map[string]string{"Body": "path", "Header": "name", "Now": "format"}[name]
	if what == "" {
		return expr{}, false
	}
	var first *value
	height, keeps := 8, false
	def, lazy := none, code(nil) // the default, which is a constant, or code if lazy is set
	for i := range args {
		switch arg := &args[i]; {
		case to[i] == 1 && arg.expr.lit != nil:
			def = *arg.expr.lit
		case to[i] == 1:
			height, keeps, lazy = 8+arg.expr.height, arg.expr.keepsLazily(false), arg.lazy
		case arg.expr.lit == nil:
			return expr{}, false
		case arg.expr.lit.kind != kindString:
			return c.fault(n, "%s: the %s must be a string, not %s", name, what, kindNames[arg.expr.lit.kind]), true
		default:
			first = arg.expr.lit
		}
	}
	at, s := c.place(n), ""
	if first != nil {
		s = first.str
	}
	// These calls are what most programs consist of. The code of each is one closure because one that calls others is slower.
	var run code
	switch {
	case name == "Body":
		p, err := tape.ParsePath(s, c.compat)
		if err != nil {
			return c.fault(n, "Body: the path %q: %v", s, err), true
		}
		run = func(m *machine, e *env) value {
			m.mark(at)
			if lazy != nil {
				return m.body(&p, lazy(m, e))
			}
			return m.body(&p, def)
		}
	case name == "Header":
		s = http.CanonicalHeaderKey(s)
		c.reads.header(s)
		run = func(m *machine, e *env) value {
			m.mark(at)
			if lazy != nil {
				return m.header(s, lazy(m, e))
			}
			return m.header(s, def)
		}
	case first == nil:
		run = func(m *machine, _ *env) value { return m.now(null) }
	default:
		f, err := parseTimeFormat(s)
		if err != nil {
			return c.fault(n, "Now: the format %q: %v", s, err), true
		}
		run = func(m *machine, _ *env) value { return m.formatTime(f) }
	}
	return expr{height: height, keeps: keeps, run: run}, true
}

func (m *machine) body(p *tape.Path, def value) value {
	m.step(1 + len(p.Steps))
	if len(p.Steps) > 0 {
		if v, ok := m.field(p, def); ok {
			return v
		}
	}
	t, err := m.event.Body()
	if err == nil {
		at, passed, ok := t.Lookup(0, p.Steps, m.compat)
		m.ticks(4 * passed)
		if ok {
			if m.compat && at == 0 && t.Nodes[0].Kind != tape.Object {
				m.fail("Body(): the body is not an object")
			}
			return m.fromDoc(t, at)
		}
		if def.kind == kindAbsent {
			err = m.event.Missing(p)
		}
	}
	if def.kind == kindAbsent || err != nil && m.compat {
		m.unreadable(err)
	}
	return m.force(def)
}

// field is body for events that read single fields. It reports false for other events.
func (m *machine) field(p *tape.Path, def value) (value, bool) {
	from := len(m.buf)
	out, kind := m.event.AppendField(m.buf, p)
	if kind == FieldUnknown {
		return null, false
	}
	m.buf = out
	m.alloc(len(out) - from)
	switch kind {
	case FieldNull:
		return null, true
	case FieldText:
		m.buf = tape.RepairUTF8(out, from)
		return m.made(from), true
	case FieldJSON:
		// The value owns the tape.
		t := &tape.Tape{}
		if err := t.Parse(out[from:len(out):len(out)]); err != nil {
			m.unreadable(fmt.Errorf("Body(%.100q): the document gave no JSON: %w", p.Text, err))
		}
		m.alloc(16 * len(t.Nodes))
		return m.fromDoc(t, 0), true
	}
	if def.kind == kindAbsent {
		m.unreadable(m.event.Missing(p))
	}
	return m.force(def), true
}

func (m *machine) header(name string, def value) value {
	m.step(1)
	if name == "" {
		l := &layer{}
		for name, v := range m.event.Headers() {
			m.alloc(128 + len(name) + len(v))
			l.add(field{name: tape.ValidUTF8(name), hide: ast.ObjectFieldInherit, val: text(tape.ValidUTF8(v))})
		}
		return newObject(l)
	}
	if v, ok := m.event.Header(name); ok {
		return text(tape.ValidUTF8(v))
	}
	if def.kind == kindAbsent {
		m.unreadable(m.event.MissingHeader(name))
	}
	return m.force(def)
}

func (m *machine) ip() value {
	from := len(m.buf)
	m.buf = m.event.AppendIP(m.buf)
	return m.made(from)
}

func (m *machine) bodyText() value {
	if m.bodyStr.kind == kindNull {
		b, err := m.event.BodyBytes()
		if err != nil {
			m.unreadable(err)
		}
		m.step(len(b) >> 6)
		m.known = true
		m.bodyStr = text(tape.ValidUTF8(tape.AsString(b)))
	}
	return m.bodyStr
}

func (m *machine) headerText() value {
	if m.headerStr.kind == kindNull {
		s := m.event.HeaderText()
		m.alloc(len(s))
		m.known = true
		m.headerStr = text(tape.ValidUTF8(s))
	}
	return m.headerStr
}

// now is Now(format), where null stands for no format.
func (m *machine) now(format value) value {
	if format.kind == kindNull {
		from := len(m.buf)
		m.buf = m.event.AppendTime(m.buf)
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
	if t := m.event.Time(); !t.IsZero() {
		m.buf = f.FormatBuffer(m.buf, t.UTC())
	}
	m.alloc(len(m.buf) - from)
	return m.made(from)
}

// parseTimeFormat parses a format of strftime, with %f for the three digits of the milliseconds.
func parseTimeFormat(s string) (*strftime.Strftime, error) {
	f, err := strftime.New(s, strftime.WithMilliseconds('f'))
	if err != nil {
		err = fmt.Errorf("%w; write one of strftime, such as %%Y-%%m-%%d", err)
	}
	return f, err
}
