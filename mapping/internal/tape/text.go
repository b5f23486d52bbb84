package tape

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendCSV appends text with every quote doubled (RFC 4180), without the enclosing quotes.
func AppendCSV(dst, src []byte) []byte {
	// Room for the worst case is not reserved, because quotes are rarely more than a fifth of a text.
	for len(src) >= 8 {
		n := min(len(src), 1024) &^ 7
		// Every word is stored before it is known how much of it counts, so there is always room for one more.
		dst = slices.Grow(dst, 2*n+8)
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

// AppendUnquoted decodes the content of a valid JSON string and replaces every byte of invalid UTF-8 and
// every unpaired surrogate by U+FFFD.
func AppendUnquoted(dst, content []byte) []byte {
	for i := 0; i < len(content); {
		switch c := content[i]; {
		case c == '\\':
			c := content[i+1]
			if c == 'u' {
				var n int
				dst, n = appendUnicodeEscape(dst, AsString(content[i:]))
				i += n
				continue
			}
			if k := strings.IndexByte("bfnrt", c); k >= 0 {
				c = "\b\f\n\r\t"[k]
			}
			dst = append(dst, c)
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

// RepairUTF8 replaces every byte of invalid UTF-8 in dst[from:] by U+FFFD.
func RepairUTF8(dst []byte, from int) []byte {
	if utf8.Valid(dst[from:]) {
		return dst
	}
	return append(dst[:from], ValidUTF8(string(dst[from:]))...)
}

// appendCompact appends a valid JSON text without its insignificant white space.
func appendCompact(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case ' ', '\n', '\r', '\t':
			i++
		case '"':
			end, _ := scanString(text, i+1)
			dst = append(dst, text[i:end]...)
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// ValidUTF8 returns s with every byte of invalid UTF-8 replaced by U+FFFD.
func ValidUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// maxKeptBytes bounds each buffer that a pool keeps after an unusually large event.
const maxKeptBytes = 256 << 10

// Keep returns b empty for its next use, or nil when b is too large to wait in a pool.
func Keep(b []byte) []byte {
	if cap(b) > maxKeptBytes {
		return nil
	}
	return b[:0]
}
