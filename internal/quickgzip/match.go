package quickgzip

import (
	"encoding/binary"
	"math/bits"
)

const (
	// Longest is the longest text of an Encoder. In it every match is within the window of DEFLATE.
	Longest = 32 << 10
	// matchBits is the size of the table for short texts, which is cleared for each.
	matchBits = 10
	// matchMargin is the distance between the start of the last match and the end, because whole words are read while searching.
	matchMargin = 16
)

// matcher finds repetitions in a short text, finder in any text. It reuses its memory. Its zero value is ready.
type matcher struct {
	table [1 << matchBits]uint16
	parts []part
}

// part is a number of literal bytes, followed by a match of length bytes at the distance. Only the last part of a text may
// have length 0.
type part struct{ literals, length, distance uint16 }

// matchPlace is the table index of the six lowest bytes of v. Looking for matches of four and five bytes would save a byte
// or two each, and take as long as for a long one.
func matchPlace(v uint64) uint64 { return v << 16 * 0x9e3779b185ebca87 >> (64 - matchBits) }

// find divides src into parts, which are valid until the next call.
func (m *matcher) find(src []byte) []part {
	clear(m.table[:])
	le := binary.LittleEndian
	m.parts = m.parts[:0]
	literal := 0 // start of the bytes without a part
	last := len(src) - matchMargin
	for at := 1; at < last; {
		word := le.Uint64(src[at:])
		before := 0
		for { // three places a step
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
			if at += 3 + (at-literal)>>5; at >= last { // larger steps where nothing repeats
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

// commonPrefix returns how many bytes a shares with b, which is longer.
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
