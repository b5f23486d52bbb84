package gunzip

import (
	"math/bits"
	"sync"
)

// An entry of a table gives the meaning of the next bits:
//
//	bits  0 to  7  how many bits it takes, extra bits included
//	bits  8 to 11  how many of them are the code
//	bits 16 to 31  a value: one or two literals, the least length or distance, the place of a subtable, or a symbol
//
// and these flags. An entry without flags is a length, a distance or a symbol.
const (
	isLiteral = 1 << 12
	isPair    = 1 << 13 // with isLiteral: two literals
	isSpecial = 1 << 15 // one of the next two, or without them no code
	isEnd     = 1 << 14 // of the block
	isSub     = 1 << 13
	noCode    = isSpecial

	codeOnce = 1<<8 | 1 // times the bits of a code
)

const (
	literalSymbols, distanceSymbols, lengthSymbols = 286, 30, 19
	maxCode                                        = 15

	// Codes of more bits are found in subtables of 1<<(maxCode-literalBits) and 1<<(maxCode-distanceBits) entries. Two or more codes share one.
	literalBits, distanceBits = 11, 9
	literalRoom               = 1<<literalBits + literalSymbols/2<<(maxCode-literalBits)
	distanceRoom              = 1<<distanceBits + distanceSymbols/2<<(maxCode-distanceBits)
	lengthBits                = 7
)

// tables decode the codes of a block.
type tables struct {
	literals  [literalRoom]uint32
	distances [distanceRoom]uint32
}

// The entries of symbols (RFC 1951, section 3.2.5), without the bits of their codes. The fixed codes have two more symbols in both
// alphabets, which must not occur.
var literalEntries, distanceEntries, symbolEntries = func() (literals [literalSymbols + 2]uint32, distances [distanceSymbols + 2]uint32, symbols [lengthSymbols]uint32) {
	for i := range 256 {
		literals[i] = isLiteral | uint32(i)<<16
	}
	literals[256] = isSpecial | isEnd
	least := uint32(3)
	for i := range 28 {
		extra := uint32(max(i/4-1, 0))
		literals[257+i] = least<<16 | extra
		least += 1 << extra
	}
	literals[285] = 258 << 16
	least = 1
	for i := range distanceSymbols {
		extra := uint32(max(i/2-1, 0))
		distances[i] = least<<16 | extra
		least += 1 << extra
	}
	for i := range 2 {
		literals[literalSymbols+i], distances[distanceSymbols+i] = noCode, noCode
	}
	for i := range symbols {
		symbols[i] = uint32(i) << 16
	}
	return literals, distances, symbols
}()

// fixedTables have the predefined codes (section 3.2.6).
var fixedTables = sync.OnceValue(func() *tables {
	var lengths [literalSymbols + 2]uint8
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		default:
			lengths[i] = 8
		}
	}
	var distances [distanceSymbols + 2]uint8
	for i := range distances {
		distances[i] = 5
	}
	t := new(tables)
	build(t.literals[:], literalBits, lengths[:], literalEntries[:])
	t.pair()
	build(t.distances[:], distanceBits, distances[:], distanceEntries[:])
	return t
})

// build makes a table of canonical codes (section 3.2.2) from the lengths of the codes. The codes must be complete, except for no code
// at all and one code of one bit. It reports whether they are.
func build(table []uint32, tableBits int, lengths []uint8, entries []uint32) bool {
	var count, next [maxCode + 1]int
	for _, n := range lengths {
		count[n]++
	}
	codes, code := len(lengths)-count[0], 0
	for n := 1; n <= maxCode; n++ {
		next[n] = code
		code = (code + count[n]) << 1
	}
	complete := code == 1<<(maxCode+1)
	if !complete && codes > 0 && (codes > 1 || count[1] != 1) {
		return false
	}
	if !complete {
		table[0], table[1] = noCode, noCode
	}
	room, lastPrefix := 1<<tableBits, -1
	// Codes of one length have the order of their symbols. Short codes come first, so that the codes of a subtable follow each other.
	var order [literalSymbols + 2]uint16
	var at [maxCode + 2]int
	for n := 1; n <= maxCode; n++ {
		at[n+1] = at[n] + count[n]
	}
	for symbol, n := range lengths {
		if n > 0 {
			order[at[n]] = uint16(symbol)
			at[n]++
		}
	}
	filled := 1 // how many bits of the codes have their entries
	for _, symbol := range order[:codes] {
		n := int(lengths[symbol])
		for filled < min(n, tableBits) {
			copy(table[1<<filled:2<<filled], table[:1<<filled])
			filled++
		}
		reversed := int(bits.Reverse16(uint16(next[n])) >> (16 - n))
		next[n]++
		e := entries[symbol] + uint32(n)*codeOnce
		if n <= tableBits {
			table[reversed] = e
			continue
		}
		prefix := reversed & (1<<tableBits - 1)
		if prefix != lastPrefix {
			lastPrefix = prefix
			table[prefix] = isSpecial | isSub | uint32(room)<<16
			room += 1 << (maxCode - tableBits)
		}
		sub := table[table[prefix]>>16:][:1<<(maxCode-tableBits)]
		for i := reversed >> tableBits; i < len(sub); i += 1 << (n - tableBits) {
			sub[i] = e
		}
	}
	for ; filled < tableBits; filled++ {
		copy(table[1<<filled:2<<filled], table[:1<<filled])
	}
	return true
}

// pair lets entries of literals hold the next literal as well, where its code fits. Two of three literals of rows are then found as pairs.
func (t *tables) pair() {
	for i := 1<<literalBits - 1; i >= 0; i-- { // the second is at a lower place and is no pair yet, or at 0 the same
		first := t.literals[i]
		if first&isLiteral == 0 {
			continue
		}
		taken := first & 0xff
		second := t.literals[i>>taken]
		if second&isLiteral != 0 && taken+second&0xff <= literalBits {
			t.literals[i] = first + second&0xff | isPair | second>>16<<24
		}
	}
}
