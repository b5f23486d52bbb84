package celltype

import (
	"bytes"

	"github.com/forebay/forebay/datatype"
)

// checkShape compares a valid JSON text with the limits of a target for the levels and the numbers of a document.
func checkShape(text []byte, l *datatype.Limits) Reason {
	numbers := l.NumberDigits > 0 || l.NumberScale > 0
	if !numbers && (l.MaxDepth == 0 || len(text) <= 2*l.MaxDepth) { // each level has two brackets
		return OK
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			i += stringLen(text[i:]) - 1
		case c == '[' || c == '{':
			if depth++; l.MaxDepth > 0 && depth > l.MaxDepth {
				return TooDeep
			}
		case c == ']' || c == '}':
			depth--
		case numbers && (c == '-' || c-'0' <= 9):
			n := numberLen(text[i:])
			if !numberFits(text[i:i+n], l) {
				return OutOfRange
			}
			i += n - 1
		}
	}
	return OK
}

// stringLen is the length of the JSON string that text begins with, with its quotes.
func stringLen(text []byte) int {
	for i := 1; ; i++ {
		i += bytes.IndexByte(text[i:], '"')
		slashes := 0
		for text[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// numberLen is the length of the JSON number that text begins with.
func numberLen(text []byte) int {
	for i, c := range text {
		if c-'0' > 9 && c != '-' && c != '+' && c != '.' && c|0x20 != 'e' {
			return i
		}
	}
	return len(text)
}

// highestExponent is above each exponent that a target accepts.
const highestExponent = 1 << 30

// numberFits reports whether a JSON number has no more digits before and after its point, once its exponent is applied, than the limits allow.
func numberFits(text []byte, l *datatype.Limits) bool {
	if text[0] == '-' {
		text = text[1:]
	}
	exponent, negative := 0, false
	if e := bytes.IndexAny(text, "eE"); e >= 0 {
		digits := text[e+1:]
		text = text[:e]
		negative = digits[0] == '-'
		for _, c := range digits {
			if c-'0' <= 9 {
				exponent = min(exponent*10+int(c-'0'), highestExponent)
			}
		}
		if exponent == highestExponent {
			return false
		}
		if negative {
			exponent = -exponent
		}
	}
	whole, fraction, _ := bytes.Cut(text, []byte{'.'})
	first := bytes.TrimLeft(whole, "0")
	before := len(first)
	if before == 0 {
		first = bytes.TrimLeft(fraction, "0")
		before = len(first) - len(fraction)
	}
	return (l.NumberDigits == 0 || len(first) == 0 || before+exponent <= l.NumberDigits) &&
		(l.NumberScale == 0 || len(fraction)-exponent <= l.NumberScale)
}
