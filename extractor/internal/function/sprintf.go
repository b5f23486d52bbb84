package function

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/forebay/forebay/extractor/internal/tree"
)

// maxWidth bounds the text that a format can make of a short value.
const maxWidth = 10_000

// A verb is one conversion of a format, such as "%2$'.05d".
type verb struct {
	arg       int // 1-based, 0 for the next one
	left      bool
	plus      bool
	pad       byte
	width     int
	precision int // -1 means not given
	letter    byte
}

// verbs are argument, flags, width, precision and letter.
var verbs = regexp.MustCompile(`^(?:0*([1-9][0-9]*)\$)?((?:[-+0 ]|'[\x00-\x7f])*)([0-9]*)(\.[0-9]*)?([bcduoxXseEfFgG])`)

func sprintf(c *evaluation) tree.Node {
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

// parseVerb reads the verb after a percent sign, and n is 0 when it is no conversion.
func parseVerb(s string) (v verb, n int) {
	m := verbs.FindStringSubmatch(s)
	if m == nil {
		return v, 0
	}
	v = verb{arg: count(m[1]), pad: ' ', width: count(m[3]), precision: -1, letter: m[5][0]}
	if m[4] != "" {
		v.precision = count(m[4][1:])
	}
	for flags := m[2]; flags != ""; flags = flags[1:] {
		switch flags[0] {
		case '-':
			v.left = true
		case '+':
			v.plus = true
		case '\'':
			flags = flags[1:]
			fallthrough
		default:
			v.pad = flags[0]
		}
	}
	return v, len(m[0])
}

// count reads digits, none as 0, and too many as more than is allowed.
func count(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil && digits != "" {
		return maxWidth + 1
	}
	return n
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
		return v.padded(v.signed(strconv.FormatInt(n.Cut(), 10)), true)
	case 'X':
		return v.padded(strings.ToUpper(strconv.FormatUint(uint64(n.Cut()), 16)), true)
	}
	if base, ok := bases[v.letter]; ok {
		return v.padded(strconv.FormatUint(uint64(n.Cut()), base), true)
	}
	return v.padded(v.signed(v.float(n.Real())), true)
}

var bases = map[byte]int{'u': 10, 'b': 2, 'o': 8, 'x': 16}

// signed puts a plus sign before a number if the verb asks for it.
func (v verb) signed(s string) string {
	if v.plus && s[0] != '-' {
		return "+" + s
	}
	return s
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
