//go:build !forebay_notemplates

package template

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/mapping/internal/tape"
)

// stdFormat are std.format and the operator that calls it.
func stdFormat() map[string]goFunction {
	return map[string]goFunction{
		"format": {params: []string{"str", "vals"}, texts: 1, run: (*machine).stdFormat},
		"mod": {params: []string{"a", "b"}, run: func(m *machine, a []value) value {
			switch {
			case a[0].kind == kindString:
				return m.stdFormat(a)
			case a[0].kind == kindNumber && a[1].kind == kindNumber:
				return m.modulo(a[0], a[1])
			}
			m.fail("operator %% cannot be used on types %s and %s", kindNames[a[0].kind], kindNames[a[1].kind])
			return null
		}},
	}
}

// formatCode is one code of a format string. Only %s and %d with flags and a width are fast. For all others the jsonnet version
// of std.format runs.
type formatCode struct {
	key         string // of %(key)s
	keyed       bool
	left, zero  bool
	plus, blank bool
	width       int
	conv        byte // 's', 'd' or '%'
}

// parseFormatCode parses the text after a percent sign. It reports false for codes that are left to the library.
func parseFormatCode(s string) (c formatCode, n int, ok bool) {
	if strings.HasPrefix(s, "(") {
		end := strings.IndexByte(s, ')')
		if end < 0 {
			return c, 0, false
		}
		c.key, c.keyed, n = s[1:end], true, end+1
	}
flags:
	for ; n < len(s); n++ {
		switch s[n] {
		case '-':
			c.left = true
		case '0':
			c.zero = true
		case '+':
			c.plus = true
		case ' ':
			c.blank = true
		default:
			break flags
		}
	}
	for ; n < len(s) && s[n]-'0' <= 9; n++ {
		if c.width = c.width*10 + int(s[n]-'0'); c.width > 1000 {
			return c, 0, false
		}
	}
	if n == len(s) {
		return c, 0, false
	}
	switch s[n] {
	case 's', '%':
		c.conv = s[n]
	case 'd', 'i', 'u':
		c.conv = 'd'
	default:
		return c, 0, false
	}
	return c, n + 1, true
}

func (m *machine) stdFormat(a []value) value {
	var elems []value
	var obj *object
	switch a[1].kind {
	case kindArray:
		elems = m.array(a[1])
	case kindObject:
		obj = a[1].ref.(*object)
	default:
		elems = a[1:2]
	}
	out := make([]byte, 0, len(a[0].str)+32)
	used := 0
	for rest := a[0].str; rest != ""; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			out = append(out, rest...)
			break
		}
		out = append(out, rest[:i]...)
		c, n, ok := parseFormatCode(rest[i+1:])
		if !ok {
			return m.origin("format", a...)
		}
		rest = rest[i+1+n:]
		m.step(8)
		m.alloc(i + c.width)
		from := len(out)
		if c.conv == '%' {
			out = append(out, '%')
		} else {
			var v value
			switch {
			case obj == nil && c.keyed, obj != nil && !c.keyed, obj == nil && used >= len(elems):
				return m.origin("format", a...) // for its error
			case obj != nil:
				v = m.get(obj, 0, c.key)
			default:
				v = m.forceAt(&elems[used])
				used++
			}
			if out, ok = m.formatOne(out, c, v); !ok {
				return m.origin("format", a...)
			}
		}
		if pad := c.width - utf8.RuneCount(out[from:]); pad > 0 {
			out = append(out, strings.Repeat(" ", pad)...)
			if !c.left {
				copy(out[from+pad:], out[from:len(out)-pad])
				copy(out[from:], strings.Repeat(" ", pad))
			}
		}
	}
	if obj == nil && used < len(elems) {
		return m.origin("format", a...)
	}
	m.alloc(len(out))
	return text(tape.AsString(out))
}

// formatOne writes one value. It reports false for values that are left to the library.
func (m *machine) formatOne(out []byte, c formatCode, v value) ([]byte, bool) {
	if c.conv == 's' {
		s := m.toString(v)
		m.alloc(len(s))
		return append(out, s...), true
	}
	if v.kind != kindNumber {
		return out, false
	}
	f := m.float(v)
	if math.Abs(f) > maxSafe {
		return out, false // the library divides such numbers digit by digit
	}
	digits := strconv.FormatInt(int64(math.Floor(math.Abs(f))), 10)
	sign := ""
	switch {
	case f <= -1:
		sign = "-"
	case c.plus:
		sign = "+"
	case c.blank:
		sign = " "
	}
	out = append(out, sign...)
	if c.zero && !c.left {
		for n := c.width - len(sign) - len(digits); n > 0; n-- {
			out = append(out, '0')
		}
	}
	return append(out, digits...), true
}
