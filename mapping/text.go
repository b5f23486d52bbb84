package mapping

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/forebay/forebay/internal/jsontext"
)

// appendCSV appends text with every quote doubled (RFC 4180), without the enclosing quotes.
func appendCSV(dst, src []byte) []byte {
	// Room for the worst case is not reserved: quotes are rarely more than a fifth of a text.
	for len(src) >= 8 {
		n := min(len(src), 1024) &^ 7
		// Every word is stored before it is known how much of it counts, so there is always room for one more.
		dst = grow(dst, 2*n+8)
		out := dst[:cap(dst)]
		j := len(dst)
		i := 0
		for i+8 <= n {
			w := binary.LittleEndian.Uint64(src[i:])
			binary.LittleEndian.PutUint64(out[j:], w)
			q := w ^ '"'*ones
			m := (q - ones) &^ q & highs
			if m == 0 {
				i += 8
				j += 8
				continue
			}
			k := bits.TrailingZeros64(m)>>3 + 1
			i += k
			j += k
			out[j] = '"'
			j++
		}
		dst = out[:j]
		src = src[i:]
		if n < 8 {
			break
		}
	}
	for _, c := range src {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return dst
}

// appendUnquoted decodes the content of a JSON string, which is valid, and replaces every byte of invalid UTF-8 and
// every unpaired surrogate by U+FFFD.
func appendUnquoted(dst, content []byte) []byte {
	for i := 0; i < len(content); {
		switch c := content[i]; {
		case c == '\\':
			switch c := content[i+1]; c {
			case 'b':
				dst = append(dst, '\b')
			case 'f':
				dst = append(dst, '\f')
			case 'n':
				dst = append(dst, '\n')
			case 'r':
				dst = append(dst, '\r')
			case 't':
				dst = append(dst, '\t')
			case 'u':
				var n int
				dst, n = appendUnicodeEscape(dst, unsafeString(content[i:]))
				i += n
				continue
			default:
				dst = append(dst, c)
			}
			i += 2
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, n := utf8.DecodeRune(content[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}

// appendUnicodeEscape decodes the \uXXXX at the start of s, together with a second one when they are a surrogate pair.
// n is the number of bytes read, 0 if s does not begin with a valid escape.
func appendUnicodeEscape(dst []byte, s string) (_ []byte, n int) {
	r := hexRune(s)
	if r < 0 {
		return dst, 0
	}
	if utf16.IsSurrogate(r) {
		if r2 := utf16.DecodeRune(r, hexRune(s[6:])); r2 != utf8.RuneError {
			return utf8.AppendRune(dst, r2), 12
		}
		r = utf8.RuneError
	}
	return utf8.AppendRune(dst, r), 6
}

func hexRune(s string) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	var r rune
	for i := 2; i < 6; i++ {
		d := hexDigit(s[i])
		if d < 0 {
			return -1
		}
		r = r<<4 | rune(d)
	}
	return r
}

// repairUTF8 replaces every byte of invalid UTF-8 in dst[from:] by U+FFFD.
func repairUTF8(dst []byte, from int) []byte {
	if utf8.Valid(dst[from:]) {
		return dst
	}
	text := append([]byte(nil), dst[from:]...)
	dst = dst[:from]
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[n:]
	}
	return dst
}

// appendCompact appends a valid JSON text without its insignificant white space.
func appendCompact(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case ' ', '\n', '\r', '\t':
			i++
		case '"':
			end, _ := scanString(text, i)
			dst = append(dst, text[i:end]...)
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendJSONString appends s as a JSON string, see [jsontext.AppendString].
func appendJSONString(dst []byte, s string, html bool) []byte {
	return jsontext.AppendString(dst, s, html)
}

// isPlain reports whether s stands in a JSON string as it is: ASCII without quotes, backslashes and control characters.
func isPlain(s string) bool {
	b := unsafeBytes(s)
	switch {
	case len(b) >= 8:
		for i := 0; ; {
			if jsontext.Special(binary.LittleEndian.Uint64(b[i:])) != 0 {
				return false
			}
			if i += 8; i >= len(b) {
				return true
			}
			i = min(i, len(b)-8) // the last word overlaps the one before
		}
	case len(b) >= 4:
		return jsontext.Special(uint64(binary.LittleEndian.Uint32(b))|uint64(binary.LittleEndian.Uint32(b[len(b)-4:]))<<32) == 0
	}
	for _, c := range b {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	bigger := make([]byte, len(dst), max(2*cap(dst), len(dst)+n))
	copy(bigger, dst)
	return bigger
}

// validUTF8 returns s with every byte of invalid UTF-8 replaced by U+FFFD.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// excerpt cuts a text that goes into an error to a length that a log line can bear.
func excerpt(s string) string {
	const limit = 500
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
