package function

import (
	"strconv"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// maxWidth bounds what a format can make of a short value.
const maxWidth = 10_000

// A verb is one conversion of a format, such as "%2$'.05d".
type verb struct {
	arg       int // 1-based; 0: the next one
	left      bool
	plus      bool
	pad       byte
	width     int
	precision int // -1: not given
	letter    byte
}

func sprintf(c *call) tree.Node {
	format := c.text(0)
	var b strings.Builder
	next := 1
	for i := 0; i < len(format); {
		if format[i] != '%' {
			b.WriteByte(format[i])
			i++
			continue
		}
		if strings.HasPrefix(format[i:], "%%") {
			b.WriteByte('%')
			i += 2
			continue
		}
		v, n := parseVerb(format[i+1:])
		if n == 0 {
			c.fail("the format has an unknown conversion at byte %d", i)
			return tree.Node{}
		}
		i += 1 + n
		if v.width > maxWidth || v.precision > maxWidth {
			c.fail("a width or precision is above %d", maxWidth)
			return tree.Node{}
		}
		at := v.arg
		if at == 0 {
			at = next
			next++
		}
		if at >= len(c.args) {
			c.fail("the format needs at least %d values, there are %d", at, len(c.args)-1)
			return tree.Node{}
		}
		if c.args[at].IsCollection() {
			c.text(at)
			return tree.Node{}
		}
		b.WriteString(v.convert(c.args[at]))
	}
	return tree.OfString(b.String())
}

// parseVerb reads what follows a percent sign; n is 0 when it is no conversion.
func parseVerb(s string) (v verb, n int) {
	v = verb{pad: ' ', precision: -1}
	i := 0
	number := func() (int, bool) {
		from := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		value, err := strconv.Atoi(s[from:i])
		if err != nil && i > from {
			value = maxWidth + 1
		}
		return value, i > from
	}
	if value, ok := number(); ok && i < len(s) && s[i] == '$' && value > 0 {
		v.arg = value
		i++
	} else {
		i = 0
	}
flags:
	for ; i < len(s); i++ {
		switch s[i] {
		case '-':
			v.left = true
		case '+':
			v.plus = true
		case '0', ' ':
			v.pad = s[i]
		case '\'':
			if i++; i >= len(s) {
				return v, 0
			}
			v.pad = s[i]
		default:
			break flags
		}
	}
	v.width, _ = number()
	if i < len(s) && s[i] == '.' {
		i++
		v.precision, _ = number()
	}
	if i >= len(s) || strings.IndexByte("bcduoxXseEfFgG", s[i]) < 0 {
		return v, 0
	}
	v.letter = s[i]
	return v, i + 1
}

func (v verb) convert(n tree.Node) string {
	switch v.letter {
	case 's':
		s := n.Text()
		if v.precision >= 0 && v.precision < len(s) {
			s = s[:v.precision]
		}
		return v.padded(s, false)
	case 'c':
		return string([]byte{byte(n.Cut())})
	case 'd':
		s := strconv.FormatInt(n.Cut(), 10)
		if v.plus && s[0] != '-' {
			s = "+" + s
		}
		return v.padded(s, true)
	case 'u':
		return v.padded(strconv.FormatUint(uint64(n.Cut()), 10), true)
	case 'b':
		return v.padded(strconv.FormatUint(uint64(n.Cut()), 2), true)
	case 'o':
		return v.padded(strconv.FormatUint(uint64(n.Cut()), 8), true)
	case 'x':
		return v.padded(strconv.FormatUint(uint64(n.Cut()), 16), true)
	case 'X':
		return v.padded(strings.ToUpper(strconv.FormatUint(uint64(n.Cut()), 16)), true)
	}
	s := v.float(n.Real())
	if v.plus && s[0] != '-' {
		s = "+" + s
	}
	return v.padded(s, true)
}

func (v verb) float(f float64) string {
	precision := v.precision
	if precision < 0 {
		precision = 6
	}
	switch v.letter {
	case 'f', 'F':
		return strconv.FormatFloat(f, 'f', precision, 64)
	case 'g', 'G':
		s := tree.FloatText(f, max(precision, 1))
		if v.letter == 'g' {
			s = strings.ToLower(s)
		}
		return s
	}
	// The exponent has no leading zeros here.
	s := strconv.FormatFloat(f, v.letter, precision, 64)
	if at := strings.LastIndexAny(s, "+-"); at > 0 {
		s = s[:at+1] + strings.TrimLeft(s[at+1:len(s)-1], "0") + s[len(s)-1:]
	}
	return s
}

// padded fills up to the width. Zeros go between the sign of a number and its digits.
func (v verb) padded(s string, numeric bool) string {
	missing := v.width - len(s)
	if missing <= 0 {
		return s
	}
	fill := strings.Repeat(string([]byte{v.pad}), missing)
	switch {
	case v.left:
		return s + fill
	case numeric && v.pad == '0' && (s[0] == '-' || s[0] == '+'):
		return s[:1] + fill + s[1:]
	}
	return fill + s
}
