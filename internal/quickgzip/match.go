package quickgzip

import (
	"encoding/binary"
	"math/bits"
)

const (
	// Longest is the longest text of an Encoder: in it no match can be farther away than DEFLATE can refer back.
	Longest = 32 << 10
	// matchBits is the size of the table for short texts, which has to be cleared for each.
	matchBits = 10
	// matchMargin is how far before the end the last match begins: whole words are read where one is looked for.
	matchMargin = 16
)

// matcher finds what repeats itself in a short text; finder does it in any. It keeps its memory from one text to the next.
// Its zero value is ready.
type matcher struct {
	table [1 << matchBits]uint16
	parts []part
}

// part is a number of bytes as they are, and behind them as many as stood the distance before. Only the last part of a
// text may have no length.
type part struct{ literals, length, distance uint16 }

// matchPlace is where the six lowest bytes of v have their place. Matches of four and five bytes are found by chance: to
// look for them gains a byte or two each, and takes as long as for a long one.
func matchPlace(v uint64) uint64 { return v << 16 * 0x9e3779b185ebca87 >> (64 - matchBits) }

// find divides src into parts. They are valid until the next call.
func (m *matcher) find(src []byte) []part {
	clear(m.table[:])
	le := binary.LittleEndian
	m.parts = m.parts[:0]
	literal := 0 // where the bytes begin that have no part yet
	last := len(src) - matchMargin
	for at := 1; at < last; {
		word := le.Uint64(src[at:])
		before := 0
		for { // three places in one step
			first, second, third := &m.table[matchPlace(word)], &m.table[matchPlace(word>>8)], &m.table[matchPlace(word>>16)]
			one, two := int(*first), int(*second)
			*first, *second = uint16(at), uint16(at+1)
			three := int(*third)
			*third = uint16(at + 2)
			if uint32(word) == le.Uint32(src[one:]) {
				before = one
				break
			}
			if uint32(word>>8) == le.Uint32(src[two:]) {
				before = two
				at++
				break
			}
			if uint32(word>>16) == le.Uint32(src[three:]) {
				before = three
				at += 2
				break
			}
			if at += 3 + (at-literal)>>5; at >= last { // steps grow where nothing repeats
				m.parts = append(m.parts, part{literals: uint16(len(src) - literal)})
				return m.parts
			}
			word = le.Uint64(src[at:])
		}
		for before > 0 && at > literal && src[before-1] == src[at-1] {
			before--
			at--
		}
		p := part{literals: uint16(at - literal), distance: uint16(at - before)}
		literal = at + 4 + commonPrefix(src[at+4:], src[before+4:])
		p.length = uint16(literal - at)
		m.parts = append(m.parts, p)
		if at = literal; at < last {
			m.table[matchPlace(le.Uint64(src[at-2:]))] = uint16(at - 2)
		}
	}
	m.parts = append(m.parts, part{literals: uint16(len(src) - literal)})
	return m.parts
}

// commonPrefix returns how many bytes a has in common with b, which is longer.
func commonPrefix(a, b []byte) int {
	le, all := binary.LittleEndian, len(a)
	for len(a) >= 16 && len(b) >= 16 {
		if diff := le.Uint64(a) ^ le.Uint64(b); diff != 0 {
			return all - len(a) + bits.TrailingZeros64(diff)/8
		}
		if diff := le.Uint64(a[8:]) ^ le.Uint64(b[8:]); diff != 0 {
			return all - len(a) + 8 + bits.TrailingZeros64(diff)/8
		}
		a, b = a[16:], b[16:]
	}
	n := 0
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return all - len(a) + n
}
