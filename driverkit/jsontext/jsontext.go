// Package jsontext scans and writes JSON strings (RFC 8259), eight bytes at a time and without allocation.
package jsontext

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strings"
	"unicode/utf8"
	"unsafe"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// Special marks the bytes of a word that end the plain part of a string: quotes, backslashes, control characters and bytes
// above 0x7f. Only the lowest mark is reliable because a subtraction also marks a byte up to 0x7f when a byte below it borrows.
func Special(w uint64) uint64 { return SpecialBits(w) & highs }

// SpecialBits is Special with meaningless bits below the marks, so that the marks of several words can be combined.
func SpecialBits(w uint64) uint64 {
	return ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones) | (w - 0x20*ones) | w
}

// IsPlain reports whether s needs no escape in a JSON string: ASCII without quotes, backslashes and control characters.
func IsPlain(s string) bool {
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	switch {
	case len(b) >= 8:
		for i := 0; ; {
			if Special(binary.LittleEndian.Uint64(b[i:])) != 0 {
				return false
			}
			if i += 8; i >= len(b) {
				return true
			}
			i = min(i, len(b)-8) // the last word overlaps the one before
		}
	case len(b) >= 4:
		return Special(uint64(binary.LittleEndian.Uint32(b))|uint64(binary.LittleEndian.Uint32(b[len(b)-4:]))<<32) == 0
	}
	for _, c := range b {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// End returns where the bytes end that stand for themselves in a JSON string, which is the place of the first quote, backslash or control
// character of s from i on, or len(s). Bytes above 0x7f stand for themselves.
func End(s string, i int) int {
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	for ; i <= len(b)-8; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// Bytes above 0x7f never borrow, so the lowest mark is reliable here too.
		if m := (((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones) | (w - 0x20*ones)) &^ w & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(b)
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string with as few escapes as RFC 8259 allows. Invalid UTF-8 becomes U+FFFD. With html,
// the characters <, > and & and the separators U+2028 and U+2029 are escaped as encoding/json does.
func AppendString(dst []byte, s string, html bool) []byte { return appendString(dst, s, html, false) }

// AppendRaw is AppendString that keeps bytes of invalid UTF-8, so that whoever reads the text can tell.
func AppendRaw(dst []byte, s string, html bool) []byte { return appendString(dst, s, html, true) }

// markup is like [Special], for the bytes <, > and &.
func markup(w uint64) uint64 {
	angle, ampersand := (w|0x02*ones)^0x3e*ones, w^0x26*ones // < and > differ in one bit
	return ((angle-ones)&^angle | (ampersand-ones)&^ampersand) & highs
}

func appendString(dst []byte, s string, html, raw bool) []byte {
	dst = append(dst, '"')
	plain := 0
	if b := unsafe.Slice(unsafe.StringData(s), len(s)); len(b) >= 8 {
		for {
			w := binary.LittleEndian.Uint64(b[plain:])
			m := Special(w)
			if html {
				m |= markup(w)
			}
			if m != 0 {
				plain += bits.TrailingZeros64(m) >> 3
				break
			}
			if plain += 8; plain == len(b) {
				break
			}
			plain = min(plain, len(b)-8) // the last word overlaps the one before
		}
	}
	dst = append(dst, s[:plain]...)
	for i := plain; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case html && (r == '\u2028' || r == '\u2029'):
				dst = append(dst, `\u202`...)
				dst = append(dst, hexDigits[r&0xf])
			case raw:
				dst = append(dst, s[i:i+n]...)
			default:
				dst = utf8.AppendRune(dst, r)
			}
			i += n
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20 && !(html && (c == '<' || c == '>' || c == '&')):
			dst = append(dst, c)
		default:
			if at := strings.IndexByte("\b\f\n\r\t", c); at >= 0 {
				dst = append(dst, '\\', "bfnrt"[at])
			} else {
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
			}
		}
	}
	return append(dst, '"')
}

// Marshal is [json.Marshal] that leaves "<", ">" and "&" as they are.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
