package celltype

import (
	"bytes"
	"unicode/utf8"
)

// CheckText reports whether text is UTF-8 of at most limit characters; 0 is no limit.
func CheckText(text []byte, limit int) Reason {
	if !utf8.Valid(text) {
		return NotUTF8
	}
	if limit > 0 && len(text) > limit && utf8.RuneCount(text) > limit {
		return TooLong
	}
	return OK
}

// CheckJSON reports whether a valid JSON text is UTF-8, and its strings have no half of a surrogate pair. With noNUL they have
// no NUL either.
func CheckJSON(text []byte, noNUL bool) Reason {
	if !utf8.Valid(text) {
		return NotUTF8
	}
	return CheckEscapes(text, noNUL)
}

// CheckEscapes is CheckJSON for a text that is known to be UTF-8.
func CheckEscapes(text []byte, noNUL bool) Reason {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return OK
		}
		if text = text[i+1:]; text[0] != 'u' {
			text = text[1:]
			continue
		}
		switch {
		case noNUL && string(text[1:5]) == "0000":
			return HasNUL
		case text[1]|0x20 != 'd' || text[2] < '8': // not a surrogate
		case text[2]|0x20 >= 'c': // a second half alone
			return LoneSurrogate
		case len(text) < 11 || text[5] != '\\' || text[6] != 'u' || text[7]|0x20 != 'd' || text[8]|0x20 < 'c':
			return LoneSurrogate
		default:
			text = text[6:]
		}
		text = text[5:]
	}
}

// uuidLen is the length of a uuid with hyphens.
const uuidLen = len("00000000-0000-0000-0000-000000000000")

// hexDigits has the lower-case letter or the digit of each byte that is a hexadecimal digit, and 0 for others.
var hexDigits = func() (table [256]byte) {
	for _, c := range []byte("0123456789abcdefABCDEF") {
		table[c] = c | 0x20
	}
	return table
}()

// AppendUUID appends a uuid in lower case with hyphens. It accepts that form and 32 digits, in any case.
func AppendUUID(dst, text []byte) ([]byte, Reason) {
	var out [uuidLen]byte
	switch len(text) {
	case 0:
		return dst, EmptyText
	case uuidLen:
		if text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
			return dst, Malformed
		}
		if !lowerHex(out[:8], text) || !lowerHex(out[9:13], text[9:]) || !lowerHex(out[14:18], text[14:]) ||
			!lowerHex(out[19:23], text[19:]) || !lowerHex(out[24:], text[24:]) {
			return dst, Malformed
		}
	case 32:
		if !lowerHex(out[:8], text) || !lowerHex(out[9:13], text[8:]) || !lowerHex(out[14:18], text[12:]) ||
			!lowerHex(out[19:23], text[16:]) || !lowerHex(out[24:], text[20:]) {
			return dst, Malformed
		}
	default:
		return dst, Malformed
	}
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return append(dst, out[:]...), OK
}

// lowerHex fills out with the digits of text, and reports whether all are hexadecimal.
func lowerHex(out, text []byte) bool {
	ok := true
	text = text[:len(out)]
	for i := range out {
		c := hexDigits[text[i]]
		out[i] = c
		ok = ok && c != 0
	}
	return ok
}

const (
	base64Standard = 0x40 // '+' or '/'
	base64URL      = 0x80 // '-' or '_'
	base64Invalid  = base64Standard | base64URL
)

// base64Values has the value of each character of base64, with a mark at those that only one alphabet has.
var base64Values = func() (table [256]byte) {
	for i := range table {
		table[i] = base64Invalid
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") {
		table[c] = byte(i)
	}
	table['+'], table['/'], table['-'], table['_'] = 62|base64Standard, 63|base64Standard, 62|base64URL, 63|base64URL
	return table
}()

// AppendBytes appends base64 in the standard alphabet with padding. It accepts that alphabet and the one for URLs, but not
// both in one text, with and without padding. The bits that belong to no byte must be zero. The empty text is no bytes.
func AppendBytes(dst, text []byte) ([]byte, Reason) {
	if padded := len(text)%4 == 0; padded {
		text = bytes.TrimSuffix(text, []byte("="))
		if len(text)%4 == 3 {
			text = bytes.TrimSuffix(text, []byte("="))
		}
	}
	if len(text) == 0 {
		return dst, OK
	}
	from := len(dst)
	seen, last := byte(0), byte(0)
	dst = append(dst, text...)
	for i, c := range dst[from:] {
		last = base64Values[c]
		if seen |= last; last >= base64URL && last < base64Invalid {
			dst[from+i] = "+/"[last&1]
		}
	}
	spare := byte(0)
	switch len(text) % 4 {
	case 1:
		return dst[:from], Malformed
	case 2:
		spare, dst = 15, append(dst, '=', '=')
	case 3:
		spare, dst = 3, append(dst, '=')
	}
	if seen >= base64Invalid || last&spare != 0 {
		return dst[:from], Malformed
	}
	return dst, OK
}
