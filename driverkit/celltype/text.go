package celltype

import (
	"bytes"
	"encoding/binary"
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

// AppendUUID appends a uuid in lower case with hyphens. It accepts that form and 32 digits, in any case.
func AppendUUID(dst, text []byte) ([]byte, Reason) {
	word := func(a, b int) uint64 { // of four digits at a and four at b
		return uint64(binary.LittleEndian.Uint32(text[a:])) | uint64(binary.LittleEndian.Uint32(text[b:]))<<32
	}
	var words [4]uint64
	switch {
	case len(text) == uuidLen && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-':
		words = [4]uint64{word(0, 4), word(9, 14), word(19, 24), word(28, 32)}
	case len(text) == 32:
		words = [4]uint64{word(0, 4), word(8, 12), word(16, 20), word(24, 28)}
	case len(text) == 0:
		return dst, EmptyText
	default:
		return dst, Malformed
	}
	bad := uint64(0)
	for i := range words {
		lower, others := lowerHex(words[i])
		words[i], bad = lower, bad|others
	}
	if bad != 0 {
		return dst, Malformed
	}
	n := len(dst)
	dst = append(dst, "00000000-0000-0000-0000-000000000000"...)
	out := dst[n : n+uuidLen]
	binary.LittleEndian.PutUint64(out, words[0])
	binary.LittleEndian.PutUint32(out[9:], uint32(words[1]))
	binary.LittleEndian.PutUint32(out[14:], uint32(words[1]>>32))
	binary.LittleEndian.PutUint32(out[19:], uint32(words[2]))
	binary.LittleEndian.PutUint32(out[24:], uint32(words[2]>>32))
	binary.LittleEndian.PutUint64(out[28:], words[3])
	return dst, OK
}

const (
	base64Standard = 0x40 // '+' or '/'
	base64URL      = 0x80 // '-' or '_'
	base64Invalid  = base64Standard | base64URL
)

// base64Values has the value of each character of base64, with a mark at the characters that only one alphabet has.
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
