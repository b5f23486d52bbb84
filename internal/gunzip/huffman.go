package gunzip

import "encoding/binary"

// pairFrom is how much text of a block is decoded before its literals are paired, which takes as long as a KiB of text.
const pairFrom = 8 << 10

// huffman decodes a block, until it ends or text is full.
func (r *Reader) huffman() error {
	const full = window + textBytes - stepText
	ended, err := false, error(nil)
	if r.unpaired > 0 {
		before := r.to
		ended, err = r.symbols(min(full, r.to+r.unpaired))
		if r.unpaired -= r.to - before; r.unpaired <= 0 {
			r.own.pair()
		}
	} else {
		ended, err = r.symbols(full)
	}
	if ended {
		r.state = (*Reader).block
	}
	return err
}

// symbols decodes until the block ends or text is longer than limit. A step takes at most three lookups of literals, or two and a match.
func (r *Reader) symbols(limit int) (ended bool, err error) {
	// Local variables can live in registers.
	var (
		in, text  = r.in[:], r.text[:]
		literals  = &r.codes.literals
		distances = &r.codes.distances
		at, to    = r.at, r.to
		bits, n   = r.bits, r.n
	)
	for to <= limit {
		if at+16 > r.end {
			if r.srcErr != nil { // the padding was used
				r.at, r.to, r.bits, r.n = at, to, bits, n
				return false, r.short()
			}
			r.at = at
			r.fill()
			at = r.at
			continue
		}
		before := to
		bits |= binary.LittleEndian.Uint64(in[at:]) << (n & 63)
		at += int(63-n) >> 3
		n |= 56

		e := literals[bits&(1<<literalBits-1)]
		if e&isLiteral != 0 { // three times literalBits, and a length, are less than 56
			binary.LittleEndian.PutUint16(text[to:], uint16(e>>16))
			to += 1 + int(e>>13&1)
			bits >>= e & 63
			n -= uint(e & 63)
			e = literals[bits&(1<<literalBits-1)]
			if e&isLiteral != 0 {
				binary.LittleEndian.PutUint16(text[to:], uint16(e>>16))
				to += 1 + int(e>>13&1)
				bits >>= e & 63
				n -= uint(e & 63)
				e = literals[bits&(1<<literalBits-1)]
				if e&isLiteral != 0 {
					binary.LittleEndian.PutUint16(text[to:], uint16(e>>16))
					to += 1 + int(e>>13&1)
					bits >>= e & 63
					n -= uint(e & 63)
					if at > r.last && 8*at-int(n) > 8*r.last {
						r.at, r.to, r.bits, r.n = at, before, bits, n
						return false, r.short()
					}
					continue
				}
			}
		}
		if e&isSpecial != 0 {
			if e&isSub != 0 {
				e = literals[e>>16+uint32(bits>>literalBits)&(1<<(maxCode-literalBits)-1)]
			}
			if e&isLiteral != 0 {
				text[to] = byte(e >> 16)
				to++
				bits >>= e & 63
				n -= uint(e & 63)
				if at > r.last && 8*at-int(n) > 8*r.last {
					r.at, r.to, r.bits, r.n = at, before, bits, n
					return false, r.short()
				}
				continue
			}
			if e&isSpecial != 0 {
				bits >>= e & 63
				n -= uint(e & 63)
				if r.at, r.to, r.bits, r.n = at, to, bits, n; r.overrun() {
					r.to = before
					return false, r.short()
				}
				if e&isEnd == 0 {
					return false, corrupt("code of a literal")
				}
				return true, nil
			}
		}
		length := int(e>>16 + uint32(bits)&(1<<(e&31)-1)>>(e>>8&15))
		bits >>= e & 63
		n -= uint(e & 63)

		bits |= binary.LittleEndian.Uint64(in[at:]) << (n & 63)
		at += int(63-n) >> 3
		n |= 56
		e = distances[bits&(1<<distanceBits-1)]
		if e&isSub != 0 {
			e = distances[e>>16+uint32(bits>>distanceBits)&(1<<(maxCode-distanceBits)-1)]
		}
		distance := int(e>>16 + uint32(bits)&(1<<(e&31)-1)>>(e>>8&15))
		bits >>= e & 63
		n -= uint(e & 63)
		if at > r.last && 8*at-int(n) > 8*r.last {
			r.at, r.to, r.bits, r.n = at, before, bits, n
			return false, r.short()
		}
		if e&isSpecial != 0 || distance > to-r.begin {
			r.at, r.to, r.bits, r.n = at, to, bits, n
			return false, corrupt("distance")
		}
		from := to - distance
		if distance >= 16 {
			for end := to + length; ; { // the excess is overwritten later
				*(*[16]byte)(text[to:]) = *(*[16]byte)(text[from:])
				if to, from = to+16, from+16; to >= end {
					to = end
					break
				}
			}
			continue
		}
		for range length {
			text[to] = text[from]
			to, from = to+1, from+1
		}
	}
	r.at, r.to, r.bits, r.n = at, to, bits, n
	return false, nil
}
