package tree

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// largestWhole is from where on not every integer is a float64.
const largestWhole = 1 << 53

// ofNumber returns a number that is no Int. Its text is kept when the float alone would not give it back, as for integers
// beyond 64 bits, and more digits than a float holds.
func ofNumber(text string, integer bool) Node {
	f, _ := strconv.ParseFloat(text, 64) // out of range it is the nearest value: infinite, or zero
	n := OfFloat(f)
	if integer || !holds(f, text) {
		n.str = text
	}
	return n
}

// OfInteger returns an integer of any size.
func OfInteger(i *big.Int) Node {
	if i.IsInt64() {
		return OfInt(i.Int64())
	}
	return ofNumber(i.String(), true)
}

// holds reports whether the shortest decimal of f is the number that text writes.
func holds(f float64, text string) bool {
	const always = 15 // as many significant digits are never changed
	_, digits, exponent, ok := decimal(text)
	if !ok || math.IsInf(f, 0) || f == 0 && digits != "" {
		return false
	}
	if len(digits) <= always {
		return true
	}
	_, d, e, _ := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	return d == digits && e == exponent
}

// decimal takes a decimal number apart. It is 0.digits × 10^exponent, with neither zeros in front nor at the end of the
// digits. ok is false when the exponent is beyond all use.
func decimal(text string) (negative bool, digits string, exponent int, ok bool) {
	if text != "" && (text[0] == '-' || text[0] == '+') {
		negative, text = text[0] == '-', text[1:]
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		e, err := strconv.Atoi(text[at+1:])
		if err != nil || e > 1e6 || e < -1e6 {
			return negative, "", 0, false
		}
		exponent, text = e, text[:at]
	}
	whole, fraction, hasFraction := strings.Cut(text, ".")
	exponent += len(whole)
	digits = whole
	if hasFraction {
		digits += fraction
	}
	trimmed := strings.TrimLeft(digits, "0")
	exponent -= len(digits) - len(trimmed)
	return negative, strings.TrimRight(trimmed, "0"), exponent, true
}

// maxIntegerDigits bounds the work with integers of a server.
const maxIntegerDigits = 1000

// Integer returns a number, or the number that a string holds, as an exact integer. A fraction is cut. ok is false for
// other values and for integers of more than 1,000 digits.
func (n Node) Integer() (*big.Int, bool) {
	number, ok := n.Number()
	if !ok {
		return nil, false
	}
	if number.kind == Int {
		return big.NewInt(number.Int()), true
	}
	text := number.str
	if text == "" {
		text = strconv.FormatFloat(number.Float(), 'e', -1, 64)
	}
	negative, digits, exponent, ok := decimal(text)
	if !ok || exponent > maxIntegerDigits {
		return nil, false
	}
	if exponent < len(digits) {
		digits = digits[:max(exponent, 0)]
	} else if digits != "" {
		digits += strings.Repeat("0", exponent-len(digits))
	}
	i, _ := new(big.Int).SetString("0"+digits, 10)
	if negative {
		i.Neg(i)
	}
	return i, true
}

// CompareDigits compares two integers of any size that are written as an optional minus sign and digits. ok is false
// when one is not.
func CompareDigits(a, b string) (order int, ok bool) {
	i, iOK := OfString(a).Digits()
	j, jOK := OfString(b).Digits()
	if iOK && jOK {
		return cmp.Compare(i, j), true
	}
	if strings.ContainsAny(a+b, "+_") || len(a) > maxIntegerDigits || len(b) > maxIntegerDigits {
		return 0, false
	}
	x, xOK := new(big.Int).SetString(a, 10)
	y, yOK := new(big.Int).SetString(b, 10)
	if !xOK || !yOK {
		return 0, false
	}
	return x.Cmp(y), true
}
