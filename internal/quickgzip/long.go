package quickgzip

import (
	"encoding/binary"
	"hash/crc32"
)

// maxBlock is the longest text of a block, because a stored block has 16 bits for its length (RFC 1951, section 3.2.4).
const maxBlock = 1<<16 - 1

// shortBlock is the size from which the predefined codes are not tried, because they save at most the description of the codes.
const shortBlock = 2 << 10

// LongEncoder makes members of texts of any length, in blocks that each have their own codes. It reuses its memory, at
// most 300 KiB. Its zero value is ready. It is not safe for concurrent use.
type LongEncoder struct {
	finder      finder
	huffman     huffman
	literals    [literalSymbols]uint32 // counts
	description description
	codes       codes
}

// Append appends a member with src to dst. It panics if dst has no [Room] for it. Equal texts give equal members.
func (e *LongEncoder) Append(dst, src []byte) []byte {
	if cap(dst)-len(dst) < Room(len(src)) {
		panic("quickgzip: no room")
	}
	head := append(dst, gzipHead...)
	w := bitWriter{out: head[:cap(head)], end: len(head)}
	e.finder.reset()
	blocks, from := max(1, (len(src)+maxBlock-1)/maxBlock), 0
	for i := range blocks { // of equal size
		to := int(int64(len(src)) * int64(i+1) / int64(blocks))
		e.block(&w, src, from, to, i == blocks-1)
		from = to
	}
	w.close()
	done := binary.LittleEndian.AppendUint32(w.out[:w.end], crc32.ChecksumIEEE(src))
	return binary.LittleEndian.AppendUint32(done, uint32(len(src)))
}

// The kinds of blocks (RFC 1951, section 3.2.3), with the bit before them that marks the last block.
const (
	storedBlock = 0b00
	fixedBlock  = 0b01
	ownBlock    = 0b10
)

// block writes src[from:to] in the shortest form.
func (e *LongEncoder) block(w *bitWriter, src []byte, from, to int, last bool) {
	f := &e.finder
	f.find(src, from, to)
	e.count()
	distances := f.distances[:distanceSymbols]
	d := &e.description
	e.huffman.lengths(d.literals[:], e.literals[:], maxCode)
	e.huffman.lengths(d.distances[:], distances, maxCode)
	kind, size := uint64(ownBlock), d.init(&e.huffman)+bitsOf(d.literals[:], e.literals[:])+bitsOf(d.distances[:], distances)
	if to-from < shortBlock {
		l, d := fixedLengths()
		if fixed := bitsOf(l[:], e.literals[:]) + bitsOf(d[:], distances); fixed <= size {
			kind, size = fixedBlock, fixed
		}
	}
	if stored := int(-(w.n+3)&7) + 32 + 8*(to-from); stored <= size+e.extraBits() {
		kind = storedBlock
	}
	if kind <<= 1; last {
		kind |= 1
	}
	w.put(kind, 3)
	switch kind >> 1 {
	case storedBlock:
		w.stored(src[from:to])
		return
	case fixedBlock:
		l, d := fixedLengths()
		e.codes.init(l[:], d[:])
	case ownBlock:
		d.write(w)
		e.codes.init(d.literals[:], d.distances[:])
	}
	w.writeTokens(&e.codes, f.tokens, f.literals[:cap(f.literals)])
}

// count counts each literal and each length of the block.
func (e *LongEncoder) count() {
	clear(e.literals[:])
	for _, v := range e.finder.literals {
		e.literals[v]++
	}
	e.literals[endOfBlock] = 1
	for i := range lengthSymbols {
		from, to, _ := lengthsOf(i)
		for _, n := range e.finder.lengths[from:to] {
			e.literals[firstLength+i] += n
		}
	}
}

// extraBits is the number of bits of the block that belong to no code.
func (e *LongEncoder) extraBits() int {
	n := 0
	for i := range lengthSymbols {
		_, _, extra := lengthsOf(i)
		n += int(e.literals[firstLength+i] * extra)
	}
	for symbol, count := range e.finder.distances[:distanceSymbols] {
		n += int(count * distanceExtra(symbol))
	}
	return n
}

// bitsOf is the size of all codes of the symbols in bits.
func bitsOf(lengths []uint8, counts []uint32) int {
	n := uint32(0)
	for symbol, count := range counts {
		n += count * uint32(lengths[symbol])
	}
	return int(n)
}

// stored writes the rest of a stored block (RFC 1951, section 3.2.4).
func (w *bitWriter) stored(text []byte) {
	w.close()
	w.acc, w.n = 0, 0
	w.put(uint64(len(text))|uint64(^uint16(len(text)))<<16, 32)
	w.end += copy(w.out[w.end:], text)
}
