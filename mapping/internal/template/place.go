//go:build !forebay_notemplates

package template

import (
	"strings"
	"unicode/utf8"

	"github.com/google/go-jsonnet/ast"
)

// An error says where in the template it happened. An expression that can fail stores the number of its place in machine.at when
// its operands are known, just before it works on them. What evaluates something else in between (a thunk, a field, a call)
// restores the number. So there is nothing to unwind, and the cost is one store.

// place is the number of a piece of the user's text, 0 for none.
type place int32

// mark stores the place of the expression that is being evaluated. The standard library has no places, so its errors point at the
// user's call.
func (m *machine) mark(p place) {
	if p != 0 {
		m.at = p
	}
}

// place numbers the text range of a node. A node that the parser added has the range of the node around it.
func (c *compiler) place(n ast.Node) place {
	if c.std {
		return 0
	}
	at := c.around
	if l := n.Loc(); l != nil && l.IsSet() {
		at = textRange{l.Begin, l.End}
	}
	if !at.begin.IsSet() {
		return 0
	}
	if n := len(c.places); n > 0 && c.places[n-1] == at {
		return place(n)
	}
	c.places = append(c.places, at)
	return place(len(c.places))
}

// textRange is where a node stands, as the parser counts.
type textRange struct{ begin, end ast.Location }

// spot finds a place that the parser gave in the user's text.
func (s source) spot(r textRange) Spot {
	if r.begin.Line <= preludeLines {
		return Spot{}
	}
	begin := s.at(r.begin, "")
	from, to := s.offset(r.begin), s.offset(r.end)
	expr := strings.TrimSpace(string(s[from:max(from, to)]))
	if line, _, more := strings.Cut(expr, "\n"); more {
		expr = strings.TrimSpace(line) + " ..."
	}
	const limit = 60
	if utf8.RuneCountInString(expr) > limit {
		expr = string([]rune(expr)[:limit]) + " ..."
	}
	return Spot{begin.Line, begin.Col, expr}
}
