//go:build !forebay_notemplates

package template

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// writer turns values into JSON text.
type writer struct {
	m *machine
	// spaced puts a space after ':' and ',' and into empty containers, as std.toString does.
	spaced bool
	// verbatim writes values of the record unchanged. Otherwise they are written as jsonnet does.
	verbatim bool
	limit    int
	unit     string // the bounded resource, memory or output
}

func (w *writer) value(dst []byte, v value) []byte {
	m := w.m
	w.reserve(len(dst))
	m.step(1)
	switch v.kind {
	case kindNull:
		return append(dst, "null"...)
	case kindBool:
		return strconv.AppendBool(dst, v.num != 0)
	case kindNumber:
		return m.appendNumber(dst, v)
	case kindString:
		m.step(len(v.str) >> 4)
		w.reserve(len(dst) + len(v.str))
		if t, ok := v.ref.(*tape.Tape); ok && w.verbatim {
			return t.AppendValue(dst, uint32(v.num))
		}
		return appendQuotedText(dst, v.str)
	case kindArray:
		return w.array(dst, v)
	case kindObject:
		return w.object(dst, v.ref.(*object))
	}
	m.fail("couldn't manifest function as JSON")
	return nil
}

func (w *writer) array(dst []byte, v value) []byte {
	m := w.m
	if a := v.ref.(*array); a.doc != nil && w.verbatim {
		return w.doc(dst, a.doc, a.node)
	}
	m.enter(1)
	elems := m.array(v)
	dst = append(dst, '[')
	if len(elems) == 0 && w.spaced {
		dst = append(dst, ' ')
	}
	for i := range elems {
		if i > 0 {
			dst = w.mark(dst, ',')
		}
		dst = w.value(dst, m.forceAt(&elems[i]))
	}
	m.leave(1)
	return append(dst, ']')
}

func (w *writer) object(dst []byte, o *object) []byte {
	m := w.m
	if d, ok := o.core.(*docObject); ok && w.verbatim {
		return w.doc(dst, d.doc, d.node)
	}
	m.enter(1)
	names := m.fieldNames(o, false)
	m.checkAsserts(o)
	dst = append(dst, '{')
	if len(names) == 0 && w.spaced {
		dst = append(dst, ' ')
	}
	for i, name := range names {
		if i > 0 {
			dst = w.mark(dst, ',')
		}
		dst = appendQuotedText(dst, name)
		dst = w.mark(dst, ':')
		dst = w.value(dst, m.get(o, 0, name))
	}
	m.leave(1)
	return append(dst, '}')
}

func (w *writer) doc(dst []byte, t *tape.Tape, at uint32) []byte {
	n := &t.Nodes[at]
	size := int(n.End - n.Start)
	w.m.step(size >> 6)
	w.reserve(len(dst) + size - size/2) // compacting may make it smaller, and the next value or the end checks exactly
	return t.AppendValue(dst, at)
}

// reserve fails if a text of size bytes is too long.
func (w *writer) reserve(size int) {
	if size > w.limit {
		w.m.exceed("bytes of "+w.unit, w.limit)
	}
}

// mark writes a comma or a colon.
func (w *writer) mark(dst []byte, c byte) []byte {
	if w.spaced {
		return append(dst, c, ' ')
	}
	return append(dst, c)
}

// appendNumber writes a number. One from the record keeps its digits. A computed one has the fewest digits that read back as the
// same 64-bit float. With Compat both have the 17 digits of jsonnet.
func (m *machine) appendNumber(dst []byte, v value) []byte {
	if v.str != "" {
		return append(dst, v.str...)
	}
	f := v.num
	switch {
	case f == math.Floor(f):
		return strconv.AppendFloat(dst, f, 'f', 0, 64)
	case m.compat:
		return appendG17(dst, f)
	case math.Abs(f) < 1e-4:
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendG17 is C's "%.17g", which unlike strconv drops zeros at the end.
func appendG17(dst []byte, f float64) []byte {
	var buf [32]byte
	b := strconv.AppendFloat(buf[:0], f, 'g', 17, 64)
	return append(dst, b...)
}

const hexDigits = "0123456789abcdef"

// appendQuotedText writes a string as jsonnet does, like JSON, but DEL and the C1 control characters are escaped too.
func appendQuotedText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < 0x7f {
			i++
			continue
		}
		r, n := rune(c), 1
		if c >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
			if r > 0x9f && (r != utf8.RuneError || n > 1) {
				i += n
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		i += n
		from = i
		if r == utf8.RuneError {
			dst = utf8.AppendRune(dst, r)
		} else if k := strings.IndexByte("\b\f\n\r\t\"\\", byte(r)); k >= 0 {
			dst = append(dst, '\\', "bfnrt\"\\"[k])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&0xf])
		}
	}
	return append(append(dst, s[from:]...), '"')
}

func (m *machine) toString(v value) string {
	switch v.kind {
	case kindNull:
		return "null"
	case kindBool:
		return strconv.FormatBool(v.num != 0)
	case kindString:
		return v.str
	case kindNumber:
		if v.str != "" {
			return v.str
		}
		from := len(m.buf)
		m.buf = m.appendNumber(m.buf, v)
		m.alloc(len(m.buf) - from)
		return m.made(from).str
	}
	// Writing may itself make strings in buf, so its output needs a separate buffer.
	w := writer{m: m, spaced: true, limit: m.memory, unit: "memory"}
	b := w.value(nil, v)
	m.alloc(len(b))
	return tape.AsString(b)
}
