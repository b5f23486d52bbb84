package quickgzip

import "math/bits"

const (
	finderBits = 13
	// window is the greatest distance that DEFLATE can refer back.
	window = 32 << 10
	// finderMargin is the distance between the start of the last match and the end of the text. Words are read there without
	// a check.
	finderMargin = 48
)

// finder finds repetitions in a text of any length, turns them into tokens, and counts symbols for the codes. Its zero value
// is ready.
//
// Several designs lost. A hash of five bytes finds more matches of four and five bytes, but takes more time than they save.
// Choosing among the three places of a step without branches is slower. Putting the ends of matches into the table hides
// better places.
type finder struct {
	table  [1 << finderBits]uint32 // the previous place of each hash; 0 if there is none
	tokens []token
	// literals have room for a few more, which writeTokens reads.
	literals []byte
	lengths  [512]uint32 // counts of match lengths
	// distances are counted by symbol.
	distances [32]uint32
}

// reset starts another text.
func (f *finder) reset() { clear(f.table[:]) }

// finderPlace is the table index of the six lowest bytes of v.
func finderPlace(v uint64) uint64 { return v << 16 * 0x9e3779b185ebca87 >> (64 - finderBits) }

// grow makes room for a block of n bytes. Every token except the last stands for at least three bytes.
func (f *finder) grow(n int) {
	if cap(f.literals) < n+finderMargin {
		f.literals = make([]byte, n+finderMargin)
		f.tokens = make([]token, n/3+2)
	}
}

// find makes the tokens of the block src[from:to]. Blocks follow each other without a gap after a reset. Matches start
// before to-8, so that none is cut off below the shortest length.
func (f *finder) find(src []byte, from, to int) {
	f.grow(to - from)
	clear(f.lengths[:])
	clear(f.distances[:])
	tokens, literals := f.tokens[:cap(f.tokens)], f.literals[:cap(f.literals)]
	made, copied := 0, 0 // tokens, literals
	done := from         // start of the bytes without a token
	last := min(to-8, len(src)-finderMargin)
	for at := max(from, 8); at < last; { // the first bytes cannot repeat anything
		distance := 0
		for { // three places a step
			word := load64(src, at)
			first, second, third := &f.table[finderPlace(word)], &f.table[finderPlace(word>>8)], &f.table[finderPlace(word>>16)]
			one, two := int(*first), int(*second)
			*first, *second = uint32(at), uint32(at+1)
			three := int(*third)
			*third = uint32(at + 2)
			other, another := load32(src, two), load32(src, three) // early, because loads take long
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
			if at += 3 + (at-done)>>6; at >= last { // larger steps where nothing repeats
				break
			}
		}
		if uint(distance-1) >= window { // no match, or too far away
			at += 3
			continue
		}
		end := at + 4
		for { // sixteen bytes a step
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
			part := min(maxMatch, length-3) // the shortest match has three bytes
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
