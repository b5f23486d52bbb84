// Package quotes finds the quotes of stored rows, many bytes at once.
package quotes

import "encoding/binary"

// Bytes is how many bytes have one mask.
const Bytes = 64

// Of returns the places of the quotes, the first one in the lowest bit.
func Of(b *[Bytes]byte) (mask uint64) {
	return of8(b[0:8]) | of8(b[8:16])<<8 | of8(b[16:24])<<16 | of8(b[24:32])<<24 |
		of8(b[32:40])<<32 | of8(b[40:48])<<40 | of8(b[48:56])<<48 | of8(b[56:64])<<56
}

func of8(b []byte) uint64 {
	return In(binary.LittleEndian.Uint64(b)) >> 7 * 0x0102040810204080 >> 56 // the highest bits, side by side
}

// In returns w with the highest bit of each byte that is a quote, and all other bits zero.
func In(w uint64) uint64 {
	const each, low7 = 0x0101010101010101, 0x7f7f7f7f7f7f7f7f
	other := w ^ '"'*each // a byte is zero where a quote is
	return ^((other&low7 + low7) | other | low7)
}
