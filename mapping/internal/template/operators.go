//go:build !forebay_notemplates

package template

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/google/go-jsonnet/ast"

	"github.com/forebay/forebay/mapping/internal/tape"
)

func (c *compiler) unary(n *ast.Unary, s *scope) expr {
	x := c.node(n.Expr, s)
	op, at := n.Op, c.place(n)
	return expr{height: 1 + x.height, keeps: x.keeps, run: func(m *machine, e *env) value {
		v := x.run(m, e)
		m.mark(at)
		switch op {
		case ast.UopNot:
			return boolean(!m.boolean(v))
		case ast.UopBitwiseNot:
			return number(float64(^int64(m.float(v))))
		case ast.UopMinus:
			return number(-m.float(v))
		}
		return number(m.float(v))
	}}
}

func (c *compiler) binary(n *ast.Binary, s *scope, tail bool) expr {
	if n.Op == ast.BopPlus {
		return c.sum(n, s)
	}
	if n.Op == ast.BopAnd || n.Op == ast.BopOr {
		x, y := c.node(n.Left, s), c.node(n.Right, s)
		or, at := n.Op == ast.BopOr, c.place(n)
		return expr{height: 1 + max(x.height, y.height), keeps: x.keeps || y.keeps, run: func(m *machine, e *env) value {
			v := x.run(m, e)
			m.mark(at)
			if m.boolean(v) == or {
				return boolean(or)
			}
			v = y.run(m, e)
			m.mark(at)
			return boolean(m.boolean(v))
		}}
	}
	x, y := c.node(n.Left, s), c.node(n.Right, s)
	op, at := operators[n.Op], c.place(n)
	if op == nil {
		return c.fault(n, "unknown operator %s", n.Op)
	}
	return expr{height: 1 + max(x.height, y.height), keeps: x.keeps || y.keeps, run: func(m *machine, e *env) value {
		a := x.run(m, e)
		b := y.run(m, e)
		m.mark(at)
		return op(m, a, b)
	}}
}

var operators = map[ast.BinaryOp]func(m *machine, x, y value) value{
	ast.BopMult:            func(m *machine, x, y value) value { return m.checked(m.float(x) * m.float(y)) },
	ast.BopDiv:             (*machine).div,
	ast.BopMinus:           func(m *machine, x, y value) value { return m.checked(m.float(x) - m.float(y)) },
	ast.BopShiftL:          func(m *machine, x, y value) value { a, b := m.bits(x, y, true); return number(float64(a << (b % 64))) },
	ast.BopShiftR:          func(m *machine, x, y value) value { a, b := m.bits(x, y, true); return number(float64(a >> (b % 64))) },
	ast.BopBitwiseAnd:      func(m *machine, x, y value) value { a, b := m.bits(x, y, false); return number(float64(a & b)) },
	ast.BopBitwiseXor:      func(m *machine, x, y value) value { a, b := m.bits(x, y, false); return number(float64(a ^ b)) },
	ast.BopBitwiseOr:       func(m *machine, x, y value) value { a, b := m.bits(x, y, false); return number(float64(a | b)) },
	ast.BopGreater:         func(m *machine, x, y value) value { return boolean(m.compare(x, y) > 0) },
	ast.BopGreaterEq:       func(m *machine, x, y value) value { return boolean(m.compare(x, y) >= 0) },
	ast.BopLess:            func(m *machine, x, y value) value { return boolean(m.compare(x, y) < 0) },
	ast.BopLessEq:          func(m *machine, x, y value) value { return boolean(m.compare(x, y) <= 0) },
	ast.BopManifestEqual:   func(m *machine, x, y value) value { return boolean(m.equal(x, y)) },
	ast.BopManifestUnequal: func(m *machine, x, y value) value { return boolean(!m.equal(x, y)) },
}

func (m *machine) div(x, y value) value {
	a, b := m.float(x), m.float(y)
	if b == 0 {
		m.fail("division by zero")
	}
	return m.checked(a / b)
}

// maxSafe is the largest integer below which every integer is a 64-bit float.
const maxSafe = 1<<53 - 1

func (m *machine) bits(x, y value, shift bool) (int64, int64) {
	a, b := m.float(x), m.float(y)
	for _, f := range [2]float64{a, b} {
		if math.Abs(f) > maxSafe {
			m.fail("bitwise operator argument %v is outside of the range of safe integers", f)
		}
	}
	if shift && b < 0 {
		m.fail("shift by negative exponent")
	}
	return int64(a), int64(b)
}

// sum compiles a chain of pluses as one expression, so that a long text is built in place.
func (c *compiler) sum(n *ast.Binary, s *scope) expr {
	var operands []expr
	var places []place // of the sum up to each operand
	var collect func(ast.Node)
	height, keeps := 0, false
	collect = func(n ast.Node) {
		at := c.place(n)
		if b, ok := n.(*ast.Binary); ok && b.Op == ast.BopPlus {
			collect(b.Left)
			n = b.Right
		}
		e := c.node(n, s)
		height, keeps = max(height, e.height), keeps || e.keeps
		operands, places = append(operands, e), append(places, at)
	}
	collect(n.Left)
	right := c.node(n.Right, s)
	operands, places = append(operands, right), append(places, c.place(n))
	height = 1 + max(height, right.height)
	return expr{height: height, keeps: keeps || right.keeps, run: func(m *machine, e *env) value {
		acc := operands[0].run(m, e)
		for i := 1; i < len(operands); i++ {
			v := operands[i].run(m, e)
			m.mark(places[i])
			acc = m.plus(acc, v)
		}
		return acc
	}}
}

func (m *machine) plus(x, y value) value {
	if x.kind == kindString || y.kind == kindString {
		return m.concat(x, y)
	}
	switch x.kind {
	case kindNumber:
		return m.checked(m.float(x) + m.float(y))
	case kindObject:
		return m.extend(x.ref.(*object), m.object(y))
	case kindArray:
		return m.appended(x, m.array(y))
	}
	m.fail("unexpected type %s", kindNames[x.kind])
	return null
}

// appended is x + b. The result of an addition gets spare room, so that a list which grows by single elements costs as much as it
// has elements. All arrays that it grew through share the room; *room is the length of the longest.
func (m *machine) appended(x value, b []value) value {
	a := m.array(x)
	left := x.ref.(*array)
	n := len(a) + len(b)
	if r := left.room; r != nil && *r == len(a) && n <= cap(a) {
		m.step(len(b) / 8)
		m.alloc(64)
		*r = n
		return value{kind: kindArray, ref: &array{elems: append(a, b...), room: r}}
	}
	size := n
	if left.room != nil {
		size = 2 * n
	}
	m.step(n / 8)
	m.alloc(64 + 48*size)
	room := n
	return value{kind: kindArray, ref: &array{elems: append(append(make([]value, 0, size), a...), b...), room: &room}}
}

// concat joins two values as text. If the left one is the newest text in buf or long, it is extended in place. So a chain of n
// pluses costs n, even if other texts are made in between.
func (m *machine) concat(x, y value) value {
	switch {
	case x.kind == kindString && y.kind == kindString && y.str == "":
		return text(x.str)
	case x.kind == kindString && y.kind == kindString && x.str == "":
		return text(y.str)
	}
	a, b := m.toString(x), m.toString(y)
	m.step(1 + len(b)>>6)
	into := &m.buf
	switch {
	case endsWith(m.buf, a):
	case endsWith(m.long, a):
		into = &m.long
	default:
		m.alloc(len(a))
		m.step(len(a) >> 6)
		if len(a) > shortText {
			into = &m.long
		}
		*into = append(*into, a...)
	}
	m.alloc(len(b))
	out := append(*into, b...)
	*into = out
	return text(tape.AsString(out[len(out)-len(a)-len(b) : len(out) : len(out)]))
}

// endsWith reports whether s is the memory at the end of buf.
func endsWith(buf []byte, s string) bool {
	from := len(buf) - len(s)
	return from >= 0 && s != "" && sameMemory(s, tape.AsString(buf[from:]))
}

func (m *machine) index(target, index value) value {
	switch target.kind {
	case kindObject:
		return m.get(target.ref.(*object), 0, m.string(index))
	case kindArray:
		return m.element(target, int(m.float(index)))
	case kindString:
		i := int(m.float(index))
		if i >= 0 {
			if s := m.runeSlice(target.str, i, i+1); s != "" {
				return text(s)
			}
		}
		m.fail("index %d out of bounds, not within [0, %d)", i, m.runeCount(target.str))
	}
	m.fail("a value of type %s has no elements", kindNames[target.kind])
	return null
}

// compare orders two numbers, two strings (by code points) or two arrays.
func (m *machine) compare(x, y value) int {
	m.ticks(4)
	switch x.kind {
	case kindNumber:
		return cmp.Compare(m.float(x), m.float(y))
	case kindString:
		b := m.string(y)
		m.step(min(len(x.str), len(b)) >> 6)
		return strings.Compare(x.str, b) // valid UTF-8 sorts as its code points do
	case kindArray:
		a, b, order := m.array(x), m.array(y), 0
		m.enter(1)
		for i := 0; order == 0 && i < min(len(a), len(b)); i++ {
			order = m.compare(m.forceAt(&a[i]), m.forceAt(&b[i]))
		}
		m.leave(1)
		return cmp.Or(order, cmp.Compare(len(a), len(b)))
	}
	m.fail("values of type %s have no order", kindNames[x.kind])
	return 0
}

func (m *machine) equal(x, y value) bool {
	m.ticks(4)
	if x.kind != y.kind {
		return false
	}
	switch x.kind {
	case kindBool:
		return x.num == y.num
	case kindNumber:
		return m.float(x) == m.float(y)
	case kindString:
		m.step(min(len(x.str), len(y.str)) >> 6)
		return x.str == y.str
	case kindArray:
		a, b := m.array(x), m.array(y)
		same := len(a) == len(b)
		m.enter(1)
		for i := 0; same && i < len(a); i++ {
			same = m.equal(m.forceAt(&a[i]), m.forceAt(&b[i]))
		}
		m.leave(1)
		return same
	case kindObject:
		a, b := x.ref.(*object), y.ref.(*object)
		names, others := m.fieldNames(a, false), m.fieldNames(b, false)
		same := slices.Equal(names, others)
		m.enter(1)
		for i := 0; same && i < len(names); i++ {
			same = m.equal(m.get(a, 0, names[i]), m.get(b, 0, names[i]))
		}
		m.leave(1)
		return same
	case kindFunction:
		m.fail("functions cannot be compared")
	}
	return true
}
