package tape

import (
	"encoding/binary"
	"math/bits"

	"github.com/forebay/forebay/driverkit/jsontext"
)

// scanWord returns the end and the kind of the word that begins at text[i]. A negative end means that JSON has no such word.
func scanWord(text []byte, i int) (end int, kind Kind) {
	rest := text[i:]
	switch {
	case len(rest) >= 4 && string(rest[:4]) == "true":
		return i + 4, True
	case len(rest) >= 5 && string(rest[:5]) == "false":
		return i + 5, False
	case len(rest) >= 4 && string(rest[:4]) == "null":
		return i + 4, Null
	}
	return -1, Null
}

func isSpace(c byte) bool { return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t') }

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipPlain skips plain bytes of a long string, four words at a time.
func skipPlain(text []byte, at int) int {
	for len(text)-at >= 32 {
		b := text[at : at+32]
		if (jsontext.SpecialBits(binary.LittleEndian.Uint64(b))|jsontext.SpecialBits(binary.LittleEndian.Uint64(b[8:]))|
			jsontext.SpecialBits(binary.LittleEndian.Uint64(b[16:]))|jsontext.SpecialBits(binary.LittleEndian.Uint64(b[24:])))&highs != 0 {
			break
		}
		at += 32
	}
	return at
}

// skipWords moves over the bytes from text[i] on that stand for themselves in a string. It looks at whole words, so it also
// stops at the last seven bytes of the text.
func skipWords(text []byte, i int) int {
	for len(text)-i >= 8 {
		if m := jsontext.Special(binary.LittleEndian.Uint64(text[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	return i
}

// skipText is skipWords for strings that may be long. It is not inlined.
func skipText(text []byte, i int) int {
	for k := i; len(text)-i >= 8; {
		if m := jsontext.Special(binary.LittleEndian.Uint64(text[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		if i += 8; i-k > 16 {
			i = skipPlain(text, i)
		}
	}
	return i
}

// scanString returns the end of the string that text[i] is in, and the flags of the text it passes. A negative end
// means that the string is malformed, see stringFault.
//
// After the first byte above 0x7f such bytes are no longer special, so that text in other scripts is fast too.
func scanString(text []byte, i int) (end int, flags uint8) {
	high := uint64(highs)
	for {
		for len(text)-i >= 8 {
			w := binary.LittleEndian.Uint64(text[i:])
			m := jsontext.Special(w)
			if high == 0 {
				m = jsontext.Special(w&^highs) &^ w
			}
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(text) {
			return -1, 0
		}
		switch c := text[i]; {
		case c == '"':
			return i + 1, flags
		case c == '\\':
			flags |= Escaped
			n := escapeLen(text[i:])
			if n == 0 {
				return -1, 0
			}
			i += n
		case c < 0x20:
			return -1, 0
		case c >= 0x80:
			flags |= NonASCII
			high = 0
			i++
		default:
			i++
		}
	}
}

// escapeLen returns the length of the escape at the start of s, which is a backslash, or 0.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(s) >= 6 && hexDigit(s[2])|hexDigit(s[3])|hexDigit(s[4])|hexDigit(s[5]) >= 0 {
			return 6
		}
	}
	return 0
}

func stringFault(text []byte, i int) error {
	for i++; i < len(text); i++ {
		switch c := text[i]; {
		case c < 0x20:
			return fault(text, i, "control character in a string")
		case c == '\\':
			n := escapeLen(text[i:])
			if n == 0 {
				return fault(text, i, "invalid escape")
			}
			i += n - 1
		}
	}
	return fault(text, i, "")
}

func hexDigit(c byte) int {
	switch {
	case c-'0' <= 9:
		return int(c - '0')
	case c-'a' <= 5:
		return int(c-'a') + 10
	case c-'A' <= 5:
		return int(c-'A') + 10
	}
	return -1
}

// scanNumber returns the end of the number that begins at text[i], which is '-' or a digit. A negative end means that a
// digit is missing at ^end.
func scanNumber(text []byte, i int) (end int) {
	if text[i] == '-' {
		i++
	}
	switch {
	case i >= len(text) || text[i]-'0' > 9:
		return ^i
	case text[i] == '0':
		i++
	default:
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
	}
	if i < len(text) && text[i] == '.' {
		i++
		if i >= len(text) || text[i]-'0' > 9 {
			return ^i
		}
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		if i >= len(text) || text[i]-'0' > 9 {
			return ^i
		}
		for i < len(text) && text[i]-'0' <= 9 {
			i++
		}
	}
	return i
}
