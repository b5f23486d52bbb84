package tree

import (
	"bytes"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// Text returns a scalar as it is written in requests. The text of true is "1", false and null are "", floats have up to 14
// significant digits. Numbers of 2^53 and more, which are mostly ids, keep all digits that they were read with. A
// collection gives "".
func (n Node) Text() string {
	switch n.kind {
	case Bool:
		if n.num != 0 {
			return "1"
		}
	case Int:
		return strconv.FormatInt(n.Int(), 10)
	case Float:
		if n.str != "" && math.Abs(n.Float()) >= largestWhole {
			return n.str
		}
		return FloatText(n.Float(), 14)
	case String:
		return n.str
	}
	return ""
}

// Cell is Text as the service writes it in cells of tables, where integers beyond 64 bits are floats.
func (n Node) Cell() string {
	if n.kind == Float {
		return FloatText(n.Float(), 14)
	}
	return n.Text()
}

// FloatText writes f with up to digits significant digits, without trailing zeros, and with an exponent ("1.0E+14")
// from ten to the power of digits, or below 0.0001.
func FloatText(f float64, digits int) string {
	return string(appendFloatText(make([]byte, 0, 32), f, digits, digits, 'E'))
}

// appendFloatText appends precision digits, or as many as f needs when it is -1, and digits is where the exponent begins.
func appendFloatText(dst []byte, f float64, precision, digits int, e byte) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NAN"...)
	case math.IsInf(f, 1):
		return append(dst, "INF"...)
	case math.IsInf(f, -1):
		return append(dst, "-INF"...)
	case f == 0:
		if math.Signbit(f) {
			return append(dst, "-0"...)
		}
		return append(dst, '0')
	}
	if precision > 0 {
		precision--
	}
	var memory [32]byte
	s := strconv.AppendFloat(memory[:0], f, 'e', precision, 64) // "-d.ddde+xx"
	if s[0] == '-' {
		dst, s = append(dst, '-'), s[1:]
	}
	at := bytes.IndexByte(s, 'e')
	exp, _ := strconv.Atoi(string(s[at+1:]))
	num := s[:at]
	if at > 1 { // the digits without the point and zeros at the end
		num = append(s[:1], s[2:at]...)
	}
	for len(num) > 1 && num[len(num)-1] == '0' {
		num = num[:len(num)-1]
	}
	switch {
	case exp < -4 || exp >= digits:
		dst = append(dst, num[0], '.')
		if len(num) == 1 {
			dst = append(dst, '0')
		}
		dst = append(append(dst, num[1:]...), e)
		if exp >= 0 {
			dst = append(dst, '+')
		}
		return strconv.AppendInt(dst, int64(exp), 10)
	case exp < 0:
		dst = appendZeros(append(dst, '0', '.'), -exp-1)
		return append(dst, num...)
	case exp+1 >= len(num):
		return appendZeros(append(dst, num...), exp+1-len(num))
	}
	return append(append(append(dst, num[:exp+1]...), '.'), num[exp+1:]...)
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}

// blanks may stand around a number in a string.
const blanks = " \t\n\r\v\f"

// Number reads a value that counts as a number, which is an Int, a Float, or a string that holds one, with blanks around it.
func (n Node) Number() (Node, bool) {
	switch n.kind {
	case Int, Float:
		return n, true
	case String:
		s := strings.Trim(n.str, blanks)
		if s == "" || strings.ContainsAny(s, "xXpP_iInN") {
			return Node{}, false
		}
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return OfInt(i), true
		}
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return ofNumber(s, false), true
		}
	}
	return Node{}, false
}

// Digits reads an integer, which is an Int, or a string that is nothing but an optional minus sign and digits.
func (n Node) Digits() (int64, bool) {
	switch n.kind {
	case Int:
		return n.Int(), true
	case String:
		if n.str == "" || n.str[0] == '+' {
			return 0, false
		}
		i, err := strconv.ParseInt(n.str, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// Cut converts any scalar to an integer. Fractions are cut, of a string the leading number counts, else it is 0.
func (n Node) Cut() int64 {
	switch n.kind {
	case Bool, Int:
		return n.Int()
	case Float:
		return cutFloat(n.Float())
	case String:
		s := leadingNumber.FindString(strings.TrimLeft(n.str, blanks))
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i
		}
		f, _ := strconv.ParseFloat(s, 64)
		return cutFloat(f)
	case List:
		if n.Len() > 0 {
			return 1
		}
	case Object:
		return 1
	}
	return 0
}

// Real converts any scalar to a float, a string by its leading number.
func (n Node) Real() float64 {
	switch n.kind {
	case Bool, Int:
		return float64(n.Int())
	case Float:
		return n.Float()
	case String:
		f, _ := strconv.ParseFloat(leadingNumber.FindString(strings.TrimLeft(n.str, blanks)), 64)
		return f
	}
	return 0
}

func cutFloat(f float64) int64 {
	if math.IsNaN(f) || f >= math.MaxInt64 || f <= math.MinInt64 {
		return 0
	}
	return int64(f)
}

// leadingNumber is the decimal number at the start of a text.
var leadingNumber = regexp.MustCompile(`^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`)

// A Style says how a node is written as JSON.
type Style uint8

const (
	// Plain writes JSON as most programs do.
	Plain Style = iota
	// Escaped writes "/" as "\/" and everything outside of ASCII as \u sequences.
	Escaped
	// Exact is Plain, except that a float never looks like an integer, so it is read back as the same node.
	Exact
	// Arrays is Escaped for values of a configuration, where {} is [], and an object whose names are 0, 1, 2 and so on
	// in this order is a list.
	Arrays
)

// AppendJSON appends the value as compact JSON.
func (n Node) AppendJSON(dst []byte, style Style) []byte { return n.appendJSON(dst, style, nil) }

// WriteJSON writes the value as compact JSON, a part at a time. It uses the memory of scratch and returns it for the next
// call. w must not fail.
func (n Node) WriteJSON(w io.Writer, scratch []byte, style Style) []byte {
	scratch = n.appendJSON(scratch[:0], style, w)
	_, _ = w.Write(scratch)
	return scratch
}

// writePart is how much is gathered before it is written.
const writePart = 1 << 15

// spill writes the gathered bytes to w when there are enough, and returns the memory for the next ones. A nil w gathers all.
func spill(w io.Writer, dst []byte) []byte {
	if w == nil || len(dst) < writePart {
		return dst
	}
	_, _ = w.Write(dst)
	return dst[:0]
}

func (n Node) appendJSON(dst []byte, style Style, w io.Writer) []byte {
	switch n.kind {
	case Null:
		return append(dst, "null"...)
	case Bool:
		return strconv.AppendBool(dst, n.num != 0)
	case Int:
		return strconv.AppendInt(dst, n.Int(), 10)
	case Float:
		if n.str != "" {
			return append(dst, n.str...)
		}
		if f := n.Float(); math.IsInf(f, 0) { // larger than all floats, and read back as the same
			if f < 0 {
				dst = append(dst, '-')
			}
			return append(dst, "1e999"...)
		}
		begin := len(dst)
		if dst = appendFloatText(dst, n.Float(), -1, 17, 'e'); style == Exact && !bytes.ContainsAny(dst[begin:], ".e") {
			dst = append(dst, ".0"...)
		}
		return dst
	case String:
		return appendString(dst, n.str, style)
	}
	list := n.kind == List || style == Arrays && n.sequential()
	open, shut := byte('{'), byte('}')
	if list {
		open, shut = '[', ']'
	}
	dst = append(dst, open)
	for i := range n.kids { // without Each, which would allocate for every node
		if i > 0 {
			dst = append(dst, ',')
		}
		if !list {
			dst = append(appendString(dst, n.kids[i].Key, style), ':')
		}
		dst = spill(w, n.kids[i].Value.appendJSON(dst, style, w))
	}
	if n.asText() {
		dst = n.appendItems(dst, style, w)
	}
	return append(dst, shut)
}

// appendItems appends the items of a list that is kept as text.
func (n Node) appendItems(dst []byte, style Style, w io.Writer) []byte {
	first := true
	for m := range n.Each() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = spill(w, m.Value.appendJSON(dst, style, w))
	}
	return dst
}

// sequential reports whether the names are the positions of a list.
func (n Node) sequential() bool {
	for i, m := range n.kids {
		if p, ok := position(m.Key); !ok || p != i {
			return false
		}
	}
	return true
}

const hexDigits = "0123456789abcdef"

// asIs are the bytes that stand for themselves in the styles that escape all others.
var asIs = func() (t [256]bool) {
	for c := byte(0x20); c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\' && c != '/'
	}
	return t
}()

func appendString(dst []byte, s string, style Style) []byte {
	dst = append(dst, '"')
	asTheyAre := style == Plain || style == Exact
	for i := 0; i < len(s); {
		var end int
		if asTheyAre {
			end = jsontext.End(s, i)
			if part := s[i:end]; utf8.ValidString(part) {
				dst = append(dst, part...)
			} else {
				for _, r := range part { // each wrong byte is U+FFFD
					dst = utf8.AppendRune(dst, r)
				}
			}
		} else {
			for end = i; end < len(s) && asIs[s[end]]; {
				end++
			}
			dst = append(dst, s[i:end]...)
		}
		if end == len(s) {
			break
		}
		i = end
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r > 0xffff {
				r -= 0x10000
				dst = appendUnit(dst, 0xd800+uint16(r>>10))
				dst = appendUnit(dst, 0xdc00+uint16(r&0x3ff))
			} else {
				dst = appendUnit(dst, uint16(r))
			}
			i += size
			continue
		}
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '/':
			dst = append(dst, '\\', '/')
		default:
			if at := bytes.IndexByte([]byte("\b\f\n\r\t"), c); at >= 0 {
				dst = append(dst, '\\', "bfnrt"[at])
			} else {
				dst = appendUnit(dst, uint16(c))
			}
		}
		i++
	}
	return append(dst, '"')
}

func appendUnit(dst []byte, u uint16) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}
