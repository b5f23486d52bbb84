package quickgzip

import (
	"encoding/binary"
	"math/bits"
)

const (
	maxMatch        = 258
	distanceSymbols = 30
)

// bitWriter writes codes, the first in the lowest bits. Between its steps n is below 8.
type bitWriter struct {
	out []byte // at least eight bytes longer than the written part
	end int    // length of the written part
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
func (w *bitWriter) fixedMatch(c *codes, length, distance int) {
	d := uint32(distance - 1)
	to := &c.distances[distanceSymbol(d)]
	code, n := uint64(to.code)|uint64(d)&uint64(to.mask)<<5, uint(to.all)
	for length > 0 {
		part := min(length, maxMatch)
		if rest := length - part; rest > 0 && rest < 3 {
			part -= 3 // the shortest match has three bytes
		}
		length -= part
		of := c.lengths[part]
		size := uint(of & 255)
		w.acc |= uint64(of>>8)<<w.n | code<<((w.n+size)&63)
		w.n += size + n
		w.spill()
	}
}

// fixedLiterals writes src[from:to]. Eight bytes of ASCII are one step because their codes are the bytes plus 0x30, reversed.
func (w *bitWriter) fixedLiterals(c *codes, src []byte, from, to int) {
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
func (w *bitWriter) fixedBytes(c *codes, src []byte) {
	for _, v := range src {
		code := c.literals[v]
		w.acc |= uint64(code>>8) << (w.n & 63)
		w.n += uint(code & 255)
	}
	w.spill()
}

// reverseBytes reverses the bits of each byte.
func reverseBytes(v uint64) uint64 { return bits.ReverseBytes64(bits.Reverse64(v)) }
