package quickgzip

import (
	"math/bits"
	"slices"
)

const (
	endOfBlock     = 256
	literalSymbols = 286
	// maxCode bounds the length of codes for literals, lengths and distances. DEFLATE allows 15. With 12 four literals are
	// written in one step, and hardly a byte is lost.
	maxCode = 12
)

// huffman finds the lengths of codes. It only holds memory, so its zero value is ready.
type huffman struct {
	keys, sorted [literalSymbols]uint32
	nodes        [literalSymbols]uint32
}

// lengths sets the code length of each symbol, at most limit bits, 0 for a symbol that does not occur. At least two symbols
// have a code, as the oldest readers expect. The codes are complete.
func (h *huffman) lengths(lengths []uint8, counts []uint32, limit int) {
	clear(lengths)
	n := 0
	for symbol, count := range counts {
		if count > 0 {
			h.keys[n] = count<<9 | uint32(symbol)
			n++
		}
	}
	for symbol := uint32(0); n < 2; symbol++ {
		if counts[symbol] == 0 {
			h.keys[n] = 1<<9 | symbol
			n++
		}
	}
	keys := h.sort(n)
	perLength := h.count(keys, limit)
	for length := limit; length > 0; length-- { // the rarest symbols get the longest codes
		for _, key := range keys[:perLength[length]] {
			lengths[key&511] = uint8(length)
		}
		keys = keys[perLength[length]:]
	}
}

// sort orders the first n keys by their counts, which are below 1<<16.
func (h *huffman) sort(n int) []uint32 {
	from, to := h.keys[:n], h.sorted[:n]
	if n <= 32 {
		slices.Sort(from)
		return from
	}
	for shift := 9; shift < 25; shift += 8 {
		var next [256]uint16
		for _, key := range from {
			next[uint8(key>>shift)]++
		}
		sum := uint16(0)
		for i, count := range next {
			next[i] = sum
			sum += count
		}
		for _, key := range from {
			digit := uint8(key >> shift)
			to[next[digit]] = key
			next[digit]++
		}
		from, to = to, from
	}
	return from
}

// count returns how many codes of each length the sorted keys need. The tree is built in place (Moffat and Katajainen), so
// that each node knows its parent, and is then unfolded from its root. If a node would be split below the limit, the deepest
// leaf above the limit is split instead, so the lengths always form a tree.
func (h *huffman) count(keys []uint32, limit int) (perLength [maxCode + 1]int) {
	n := len(keys)
	nodes := h.nodes[:n]
	for i, key := range keys {
		nodes[i] = key >> 9
	}
	leaf, inner := 0, 0
	for next := range n - 1 { // the place of a leaf is free once its parent exists
		sum := uint32(0)
		for range 2 {
			if leaf == n || inner < next && nodes[inner] < nodes[leaf] {
				sum += nodes[inner]
				nodes[inner] = uint32(next)
				inner++
			} else {
				sum += nodes[leaf]
				leaf++
			}
		}
		nodes[next] = sum
	}
	perLength[1] = 2
	nodes[n-2] = 0 // from here on nodes holds depths
	for i := n - 3; i >= 0; i-- {
		depth := int(nodes[nodes[i]]) + 1
		nodes[i] = uint32(depth)
		if depth >= limit {
			depth = limit - 1
			for perLength[depth] == 0 {
				depth--
			}
		}
		perLength[depth]--
		perLength[depth+1] += 2
	}
	return perLength
}

// assign gives codes to symbols by their lengths (RFC 1951, section 3.2.2), with the code in stream order from bit 8 on, its
// number of bits below.
func assign(out []uint32, lengths []uint8) {
	var next [17]uint32
	for _, n := range lengths {
		next[n+1]++
	}
	next[1] = 0
	for i := 2; i < len(next); i++ {
		next[i] = (next[i] + next[i-1]) << 1
	}
	for symbol, n := range lengths {
		if n == 0 {
			out[symbol] = 0
			continue
		}
		out[symbol] = uint32(bits.Reverse16(uint16(next[n])))>>((16-n)&31)<<8 | uint32(n)
		next[n]++
	}
}

// codes are the codes of one block. Literals and lengths have their bits from bit 8 on and the number of bits below, lengths
// with their extra bits.
type codes struct {
	literals  [288]uint32
	lengths   [512]uint32
	distances [32]distanceCode
}

// distanceCode has the number of its bits, without and with the extra ones, and the mask of the extra bits in a distance
// minus one.
type distanceCode struct {
	code, mask uint16
	bits, all  uint8
}

func (c *codes) init(literals, distances []uint8) {
	assign(c.literals[:], literals)
	for i := range lengthSymbols {
		code := c.literals[firstLength+i]
		from, to, extra := lengthsOf(i)
		for length := from; length < to; length++ {
			c.lengths[length] = (code + extra) | uint32(length-from)<<(code&255)<<8
		}
	}
	var of [distanceSymbols]uint32
	assign(of[:], distances)
	for symbol, code := range of {
		extra := distanceExtra(symbol)
		c.distances[symbol] = distanceCode{
			code: uint16(code >> 8), mask: uint16(1<<extra - 1),
			bits: uint8(code), all: uint8(code) + uint8(extra),
		}
	}
}
