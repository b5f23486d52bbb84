package quickgzip

import (
	"encoding/binary"
	"math/bits"
)

const (
	maxMatch        = 258
	distanceSymbols = 30
)

// fixedCodes are DEFLATE's predefined codes (RFC 1951, section 3.2.6), each in the bit order of the stream.
type fixedCodes struct {
	ready bool
	// literals and lengths hold their number of bits in the upper byte; lengths include their extra bits.
	literals  [256]uint32
	lengths   [maxMatch + 1]uint32
	distances [32]uint8
}

func (c *fixedCodes) init() {
	c.ready = true
	reversed := func(code uint32, n int) uint32 { return bits.Reverse32(code) >> (32 - n) }
	for v := range uint32(144) {
		c.literals[v] = reversed(0x30+v, 8) | 8<<24
	}
	for v := uint32(144); v < 256; v++ {
		c.literals[v] = reversed(0x190+v-144, 9) | 9<<24
	}
	length, symbol := 3, uint32(257)
	for symbol < 285 {
		extra := 0
		if symbol >= 265 {
			extra = int(symbol-261) / 4
		}
		code, n := reversed(symbol-256, 7), 7
		if symbol >= 280 {
			code, n = reversed(0xc0+symbol-280, 8), 8
		}
		for e := range uint32(1) << extra {
			c.lengths[length] = code | e<<n | uint32(n+extra)<<24
			length++
		}
		symbol++
	}
	c.lengths[maxMatch] = reversed(0xc0+5, 8) | 8<<24
	for symbol := range c.distances {
		c.distances[symbol] = uint8(reversed(uint32(symbol), 5))
	}
}

// bitWriter writes codes, the first in the lowest bits. Between its steps n is below 8.
type bitWriter struct {
	out []byte // at least eight bytes longer than what is written
	end int    // length of what is written
	acc uint64
	n   uint // bits in acc
}

// spill writes the whole bytes of acc.
func (w *bitWriter) spill() {
	binary.LittleEndian.PutUint64(w.out[w.end:], w.acc)
	w.end += int(w.n >> 3)
	w.acc >>= w.n &^ 7 & 63
	w.n &= 7
}

// put writes the n lowest bits of v, at most 56. All higher bits of v must be zero.
func (w *bitWriter) put(v uint64, n uint) {
	w.acc |= v << (w.n & 63)
	w.n += n
	w.spill()
}

// close writes the remaining bits, padded to a byte.
func (w *bitWriter) close() {
	binary.LittleEndian.PutUint64(w.out[w.end:], w.acc)
	w.end += int(w.n+7) / 8
}

// fixedMatch writes a match of any length from four on.
func (w *bitWriter) fixedMatch(c *fixedCodes, length, distance int) {
	d := uint32(distance - 1)
	symbol, extra := d, uint(0)
	if d >= 4 {
		extra = uint(bits.Len32(d)-2) & 15
		symbol = uint32(2*extra) + d>>extra
	}
	code, n := uint64(c.distances[symbol&31])|uint64(d&(1<<extra-1))<<5, 5+extra
	for length > 0 {
		part := min(length, maxMatch)
		if rest := length - part; rest > 0 && rest < 3 {
			part -= 3 // the shortest match has three bytes
		}
		length -= part
		of := c.lengths[part]
		w.acc |= uint64(of&0xffffff)<<w.n | code<<((w.n+uint(of>>24))&63)
		w.n += uint(of>>24) + n
		w.spill()
	}
}

// fixedLiterals writes src[from:to]. Eight bytes of ASCII are one step: their codes are the bytes plus 0x30, reversed.
func (w *bitWriter) fixedLiterals(c *fixedCodes, src []byte, from, to int) {
	const ascii = 0x8080808080808080
	le := binary.LittleEndian
	for ; from+8 <= to; from += 8 {
		v := le.Uint64(src[from:])
		if v&ascii != 0 {
			w.fixedBytes(c, src[from:from+4])
			w.fixedBytes(c, src[from+4:from+8])
			continue
		}
		v = reverseBytes(v + 0x3030303030303030)
		le.PutUint64(w.out[w.end:], w.acc|v<<(w.n&63))
		w.end += 8
		w.acc = v >> 1 >> ((63 - w.n) & 63)
	}
	rest := uint(to-from) * 8
	if rest == 0 {
		return
	}
	if from+8 <= len(src) {
		if v := le.Uint64(src[from:]) << ((64 - rest) & 63); v&ascii == 0 {
			v = reverseBytes(v+0x3030303030303030) >> ((64 - rest) & 63)
			w.acc |= v << (w.n & 63)
			w.n += rest
			w.spill()
			return
		}
	}
	if to > from+4 {
		w.fixedBytes(c, src[from:from+4])
		from += 4
	}
	w.fixedBytes(c, src[from:to])
}

// fixedBytes writes at most four literals.
func (w *bitWriter) fixedBytes(c *fixedCodes, src []byte) {
	for _, v := range src {
		code := c.literals[v]
		w.acc |= uint64(code&0xffff) << (w.n & 63)
		w.n += uint(code >> 24)
	}
	w.spill()
}

// reverseBytes reverses the bits of each byte.
func reverseBytes(v uint64) uint64 { return bits.ReverseBytes64(bits.Reverse64(v)) }
