package quickgzip

import "math/bits"

// A token is a number of literals followed by a match:
//
//	bits  0 to  7  number of literals, which follow each other in finder.literals
//	bits  8 to 16  length of the match, 3 to maxMatch, or 0 for none
//	bits 24 to 28  symbol of its distance, or noDistance
//	bits 32 to 47  its distance minus one
type token uint64

const (
	maxLiterals = 255
	// noDistance is not a symbol of DEFLATE. Its code has no bits, like the code of length 0, so the writer needs no branch.
	noDistance = 31
	noMatch    = token(noDistance << 24)
)

func match(length, distance int) token {
	d := uint32(distance - 1)
	return token(length)<<8 | token(distanceSymbol(d))<<24 | token(d)<<32
}

func (t token) distanceSymbol() uint32 { return uint32(t >> 24 & 31) }

// distanceSymbol is the symbol of a distance minus one (RFC 1951, section 3.2.5), with its two highest bits, and the number of
// bits after them.
func distanceSymbol(d uint32) uint32 {
	if d < 4 {
		return d
	}
	extra := uint32(bits.Len32(d)-2) & 15
	return (2*extra + d>>extra) & 31
}

// Match lengths have the symbols from firstLength on.
const (
	firstLength   = 257
	lengthSymbols = 29
)

// lengthsOf returns the match lengths of symbol firstLength+i, without to, and the number of its extra bits (RFC 1951,
// section 3.2.5). The longest match has a dedicated symbol, so the symbol before it has one length less.
func lengthsOf(i int) (from, to int, extra uint32) {
	switch {
	case i == lengthSymbols-1:
		return maxMatch, maxMatch + 1, 0
	case i < 4:
		return 3 + i, 4 + i, 0
	}
	extra = uint32(i/4 - 1)
	from = 3 + (4+i%4)<<extra
	return from, min(from+1<<extra, maxMatch), extra
}

// distanceExtra is the number of extra bits of the symbol.
func distanceExtra(symbol int) uint32 { return uint32(max(symbol/2-1, 0)) }

// writeTokens writes a block without its header, and its end. It needs 16 bytes more room than it writes.
func (w *bitWriter) writeTokens(c *codes, tokens []token, literals []byte) {
	// Local variables can live in registers. At most 64 bits gather in a step: 7 from the step before, and either four
	// literals with 4*maxCode, three literals and a length with 4*maxCode+5, or a distance with maxCode+13.
	out, end, acc, n := w.out, w.end, w.acc, w.n
	at := 0
	for _, t := range tokens {
		k := int(t & maxLiterals)
		at += k
		// All four literals are looked up even if the token has fewer. The excess is masked. Most tokens then take the same
		// branch, which processors predict.
		v := load32(literals, at-k)
		first, second := uint64(c.literals[v&255]), uint64(c.literals[v>>8&255])
		third, fourth := uint64(c.literals[v>>16&255]), uint64(c.literals[v>>24])
		for k >= 4 {
			two := first + second // the lowest bytes add up the bits
			three := two + third
			acc |= (first>>8 | second>>8<<(first&63) | third>>8<<(two&63) | fourth>>8<<(three&63)) << (n & 63)
			n += uint(three+fourth) & 63
			store64(out, end, acc)
			end += int(n >> 3)
			acc >>= n & 56
			n &= 7
			k -= 4
			v = load32(literals, at-k)
			first, second = uint64(c.literals[v&255]), uint64(c.literals[v>>8&255])
			third, fourth = uint64(c.literals[v>>16&255]), uint64(c.literals[v>>24])
		}
		two := first + second
		three := two + third
		size := uint64(0)
		if k > 0 {
			size = first
		}
		if k > 1 {
			size = two
		}
		if k > 2 {
			size = three
		}
		size &= 63
		acc |= (first>>8 | second>>8<<(first&63) | third>>8<<(two&63)) & (1<<size - 1) << (n & 63)
		n += uint(size)
		length := uint64(c.lengths[t>>8&511])
		acc |= length >> 8 << (n & 63)
		n += uint(length & 63)
		store64(out, end, acc)
		end += int(n >> 3)
		acc >>= n & 56
		n &= 7
		d := c.distances[t>>24&31]
		acc |= (uint64(d.code) | uint64(t>>32)&uint64(d.mask)<<(d.bits&63)) << (n & 63)
		n += uint(d.all)
		store64(out, end, acc)
		end += int(n >> 3)
		acc >>= n & 56
		n &= 7
	}
	w.end, w.acc, w.n = end, acc, n
	w.put(uint64(c.literals[endOfBlock]>>8), uint(c.literals[endOfBlock]&255))
}
