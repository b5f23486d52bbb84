package celltype

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"

	"github.com/forebay/forebay/datatype"
)

// MaxPrecision is the greatest number of digits of a decimal.
const MaxPrecision = datatype.MaxPrecision

// AnyScale is the scale of decimals with as many fraction digits as the value needs.
const AnyScale = -1

// number is a parsed JSON number, with the digits before and after the point, and the exponent.
type number struct {
	negative    bool
	whole, frac []byte
	exponent    int64 // saturated far beyond the range of every type

	// The significant digits are [first, last), counted over whole and frac. A zero has none.
	first, last int64
}

const maxExponent = 1 << 40

// parseNumber accepts exactly -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?.
func parseNumber(text []byte) (n number, reason Reason) {
	if len(text) == 0 {
		return n, EmptyText
	}
	rest := text
	if rest[0] == '-' {
		n.negative, rest = true, rest[1:]
	}
	n.whole, rest = digits(rest)
	if len(n.whole) == 0 || len(n.whole) > 1 && n.whole[0] == '0' {
		return n, Malformed
	}
	if len(rest) > 0 && rest[0] == '.' {
		if n.frac, rest = digits(rest[1:]); len(n.frac) == 0 {
			return n, Malformed
		}
	}
	if len(rest) > 0 && rest[0]|0x20 == 'e' {
		rest = rest[1:]
		down := false
		if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
			down, rest = rest[0] == '-', rest[1:]
		}
		var exp []byte
		if exp, rest = digits(rest); len(exp) == 0 {
			return n, Malformed
		}
		for _, d := range exp {
			n.exponent = min(n.exponent*10+int64(d-'0'), maxExponent)
		}
		if down {
			n.exponent = -n.exponent
		}
	}
	if len(rest) > 0 {
		return n, Malformed
	}
	n.last = int64(len(n.whole) + len(n.frac))
	for n.last > 0 && n.digit(n.last-1) == '0' {
		n.last--
	}
	for n.first < n.last && n.digit(n.first) == '0' {
		n.first++
	}
	return n, OK
}

// digits splits leading digits from text.
func digits(text []byte) (head, rest []byte) {
	i := 0
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	return text[:i], text[i:]
}

// digit is the digit at a place, counted over whole and frac. Places outside of them are zeros.
func (n *number) digit(at int64) byte {
	switch {
	case at < 0:
	case at < int64(len(n.whole)):
		return n.whole[at]
	case at < int64(len(n.whole)+len(n.frac)):
		return n.frac[at-int64(len(n.whole))]
	}
	return '0'
}

func (n *number) zero() bool { return n.first == n.last }

// point is the place of the first digit after the decimal point.
func (n *number) point() int64 { return int64(len(n.whole)) + n.exponent }

// wholeDigits is the number of digits before the point, without leading zeros.
func (n *number) wholeDigits() int64 { return max(0, n.point()-n.first) }

// fractionDigits is the number of digits required after the point.
func (n *number) fractionDigits() int64 { return max(0, n.last-n.point()) }

// zeros pad decimals.
const zeros = "00000000000000000000000000000000000000"

// plain recognises the usual number: digits without a leading zero, and perhaps a point and more digits, but no exponent. whole and
// frac count the digits. Its cells are its own text, so it needs no [number]. Negative numbers are included, unless they may be
// zero.
func plain(text []byte) (whole, frac int, ok bool) {
	i := 0
	if len(text) > 0 && text[0] == '-' {
		i = 1
	}
	first := i
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	whole = i - first
	if whole == 0 || text[first] == '0' && (whole > 1 || first > 0) {
		return 0, 0, false
	}
	if i == len(text) {
		return whole, 0, true
	}
	if text[i] != '.' {
		return 0, 0, false
	}
	i++
	for point := i; ; i++ {
		if i == len(text) {
			return whole, i - point, i > point
		}
		if text[i]-'0' > 9 {
			return 0, 0, false
		}
	}
}

const maxInt64Digits = 19

// AppendInt64 appends a whole number in decimal digits: 1.0 and 1e3 are 1 and 1000, -0 is 0.
func AppendInt64(dst, text []byte) ([]byte, Reason) {
	if n := len(text); n > 0 && n < maxInt64Digits && (text[0] != '0' || n == 1) && allDigits(text) {
		return append(dst, text...), OK
	}
	n, reason := parseNumber(text)
	switch {
	case reason != OK:
		return dst, reason
	case n.zero():
		return append(dst, '0'), OK
	case n.fractionDigits() > 0:
		return dst, NotIntegral
	case n.wholeDigits() > maxInt64Digits:
		return dst, OutOfRange
	}
	var value uint64
	for at := n.first; at < n.point(); at++ {
		value = value*10 + uint64(n.digit(at)-'0')
	}
	if n.negative {
		if value > 1<<63 {
			return dst, OutOfRange
		}
		return strconv.AppendUint(append(dst, '-'), value, 10), OK
	}
	if value > math.MaxInt64 {
		return dst, OutOfRange
	}
	return strconv.AppendUint(dst, value, 10), OK
}

// AppendDecimal appends a number of at most precision digits with exactly scale digits after the point, or with [AnyScale]
// as many as the value needs. Negative zero becomes zero. Precision is at most [MaxPrecision], and scale at most precision.
func AppendDecimal(dst, text []byte, precision, scale int) ([]byte, Reason) {
	if whole, frac, ok := plain(text); ok && frac <= scale && whole <= precision-scale {
		dst = append(dst, text...)
		if frac == 0 && scale > 0 {
			dst = append(dst, '.')
		}
		return append(dst, zeros[:scale-frac]...), OK
	}
	n, reason := parseNumber(text)
	if reason != OK {
		return dst, reason
	}
	var whole, frac int64
	if !n.zero() {
		whole, frac = n.wholeDigits(), n.fractionDigits()
	}
	places := int64(scale)
	if scale == AnyScale {
		switch {
		case whole > int64(precision):
			return dst, OutOfRange
		case whole+frac > int64(precision):
			return dst, TooPrecise
		}
		places = frac
	}
	switch {
	case whole > int64(precision)-places:
		return dst, OutOfRange
	case frac > places:
		return dst, TooPrecise
	}
	if n.negative && !n.zero() {
		dst = append(dst, '-')
	}
	point := n.point()
	if n.zero() {
		point = 0
		n.whole, n.frac = nil, nil
	}
	if whole == 0 {
		dst = append(dst, '0')
	}
	for at := point - whole; at < point; at++ {
		dst = append(dst, n.digit(at))
	}
	if places > 0 {
		dst = append(dst, '.')
		for at := point; at < point+places; at++ {
			dst = append(dst, n.digit(at))
		}
	}
	return dst, OK
}

// AppendWidened appends the cell of an int64 as a decimal with scale digits after the point, at most [MaxPrecision]. A cell that is none
// gives text that is no decimal either.
func AppendWidened(dst, cell []byte, scale int) []byte {
	dst = append(dst, cell...)
	if scale == 0 {
		return dst
	}
	return append(append(dst, '.'), zeros[:scale]...)
}

// appendRounded is AppendDecimal for a number with more than scale digits after the point. It takes the nearest decimal, and of
// two the one whose last digit is even.
func appendRounded(dst, text []byte, precision, scale int) ([]byte, Reason) {
	n, _ := parseNumber(text) // read before, by AppendDecimal
	end := n.point() + int64(scale)
	if n.wholeDigits() > int64(precision-scale) {
		return dst, OutOfRange
	}
	var digits [MaxPrecision + 1]byte // one more for a carry
	at := len(digits)
	up := n.digit(end) > '5' || n.digit(end) == '5' && (n.last > end+1 || n.digit(end-1)&1 == 1)
	if end < n.first { // less than a tenth of the last place
		up = false
	}
	for i := end - 1; i >= n.first || len(digits)-at <= scale || up; i-- {
		d := n.digit(i)
		if up {
			if up = d == '9'; up {
				d = '0'
			} else {
				d++
			}
		}
		if at--; at < 0 {
			return dst, OutOfRange
		}
		digits[at] = d
	}
	whole := digits[at : len(digits)-scale]
	for len(whole) > 1 && whole[0] == '0' {
		whole = whole[1:]
	}
	frac := digits[len(digits)-scale:]
	zero := len(bytes.Trim(whole, "0")) == 0
	switch {
	case !zero && len(whole) > precision-scale:
		return dst, OutOfRange
	case n.negative && !(zero && len(bytes.Trim(frac, "0")) == 0):
		dst = append(dst, '-')
	}
	dst = append(dst, whole...)
	if scale > 0 {
		dst = append(append(dst, '.'), frac...)
	}
	return dst, OK
}

// AppendFloat64 appends the nearest double in the shortest form that reads back as the same double, with an exponent from
// 1e21 on and below 1e-6. NaN, Infinity and -Infinity are accepted in exactly this spelling. Values too small become 0.
// Values too large do not fit. Negative zero keeps its sign.
func AppendFloat64(dst, text []byte) ([]byte, Reason) {
	switch string(text) {
	case "NaN", "Infinity", "-Infinity":
		return append(dst, text...), OK
	}
	// A number of at most 15 digits is the shortest text of its double, unless it ends in a zero after the point. One below
	// 1e-6 has an exponent.
	if whole, frac, ok := plain(text); ok && whole+frac <= 15 && (frac == 0 || text[len(text)-1] != '0' && (text[0] != '0' || frac <= 6)) {
		return append(dst, text...), OK
	}
	if _, reason := parseNumber(text); reason != OK {
		return dst, reason
	}
	// The string does not outlive the call: ParseFloat copies the text into its error.
	f, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64)
	if err != nil {
		return dst, OutOfRange
	}
	return datatype.AppendFloat64(dst, f), OK
}

// AppendBool appends true or false, the only accepted spellings.
func AppendBool(dst, text []byte) ([]byte, Reason) {
	switch string(text) {
	case "true", "false":
		return append(dst, text...), OK
	case "":
		return dst, EmptyText
	}
	return dst, Malformed
}
