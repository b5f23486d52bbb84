package quickgzip

import "math/bits"

const (
	finderBits = 13
	// window is how far DEFLATE can refer back.
	window = 32 << 10
	// finderMargin is how far before the end of the text the last match begins: words are read there without a check.
	finderMargin = 48
)

// finder finds what repeats itself in a text of any length, makes tokens of it, and counts for the codes. Its zero value is
// ready. Matches of four and five bytes are found by chance: a hash of five bytes finds more, and gains less than the time it
// takes. To choose among the three places of a step without branches takes longer, too, and to put the ends of matches into
// the table hides better places.
type finder struct {
	table  [1 << finderBits]uint32 // the last place of a hash, before the one that is looked up; 0 where there is none
	tokens []token
	// literals have room for a few more, which writeTokens reads.
	literals []byte
	lengths  [512]uint32 // of matches
	// distances are counted by symbol.
	distances [32]uint32
}

// reset begins another text.
func (f *finder) reset() { clear(f.table[:]) }

// finderPlace is where the six lowest bytes of v have their place.
func finderPlace(v uint64) uint64 { return v << 16 * 0x9e3779b185ebca87 >> (64 - finderBits) }

// grow makes room for a block of n bytes: a token stands for three bytes at least, but for the last.
func (f *finder) grow(n int) {
	if cap(f.literals) < n+finderMargin {
		f.literals = make([]byte, n+finderMargin)
		f.tokens = make([]token, n/3+2)
	}
}

// find makes the tokens of src[from:to], a block. Blocks come in their order, without a gap, after a reset. Matches begin
// before to-8, so that none is cut off below the shortest.
func (f *finder) find(src []byte, from, to int) {
	f.grow(to - from)
	clear(f.lengths[:])
	clear(f.distances[:])
	tokens, literals := f.tokens[:cap(f.tokens)], f.literals[:cap(f.literals)]
	made, copied := 0, 0 // of tokens, and of literals
	done := from         // where the bytes begin that have no token yet
	last := min(to-8, len(src)-finderMargin)
	for at := max(from, 8); at < last; { // the first bytes repeat nothing
		distance := 0
		for { // three places in one step
			word := load64(src, at)
			first, second, third := &f.table[finderPlace(word)], &f.table[finderPlace(word>>8)], &f.table[finderPlace(word>>16)]
			one, two := int(*first), int(*second)
			*first, *second = uint32(at), uint32(at+1)
			three := int(*third)
			*third = uint32(at + 2)
			other, another := load32(src, two), load32(src, three) // early: they take long
			if uint32(word) == load32(src, one) {
				distance = at - one
				break
			}
			if uint32(word>>8) == other {
				at++
				distance = at - two
				break
			}
			if uint32(word>>16) == another {
				at += 2
				distance = at - three
				break
			}
			if at += 3 + (at-done)>>6; at >= last { // steps grow where nothing repeats
				break
			}
		}
		if uint(distance-1) >= window { // none, or too far away
			at += 3
			continue
		}
		end := at + 4
		for { // sixteen bytes in one step
			if diff := load64(src, end) ^ load64(src, end-distance); diff != 0 {
				end += bits.TrailingZeros64(diff) >> 3
				break
			}
			if diff := load64(src, end+8) ^ load64(src, end+8-distance); diff != 0 {
				end += 8 + bits.TrailingZeros64(diff)>>3
				break
			}
			if end += 16; end > len(src)-16 {
				for end < len(src) && src[end] == src[end-distance] {
					end++
				}
				break
			}
		}
		end = min(end, to)
		for at > done && at > distance && src[at-1] == src[at-distance-1] {
			at--
		}
		n := at - done
		store64(literals, copied, load64(src, done))
		store64(literals, copied+8, load64(src, done+8))
		if n > 16 {
			copy(literals[copied+16:], src[done+16:at])
		}
		copied += n
		for ; n > maxLiterals; n -= maxLiterals {
			tokens[made] = noMatch | maxLiterals
			made++
		}
		length := end - at
		t := match(0, distance)
		symbol := t.distanceSymbol()
		for length > maxMatch {
			part := min(maxMatch, length-3) // three is the shortest
			tokens[made] = t | token(part)<<8 | token(n)
			f.lengths[part]++
			f.distances[symbol]++
			made++
			n = 0
			length -= part
		}
		tokens[made] = t | token(length)<<8 | token(n)
		f.lengths[length&511]++
		f.distances[symbol]++
		made++
		done, at = end, end
	}
	n := to - done
	copied += copy(literals[copied:], src[done:to])
	for ; n > maxLiterals; n -= maxLiterals {
		tokens[made] = noMatch | maxLiterals
		made++
	}
	tokens[made] = noMatch | token(n)
	f.tokens, f.literals = tokens[:made+1], literals[:copied]
}
