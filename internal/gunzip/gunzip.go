// Package gunzip reads gzip members of CSV rows, faster than general readers, because slices of a buffer are long and mostly short literals. It reads
// all of RFC 1951 and 1952.
package gunzip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
)

var (
	// ErrHeader says that the bytes are no gzip member, or that other bytes follow the last one.
	ErrHeader = errors.New("gzip: invalid header")
	// ErrChecksum says that a member has not the length or the checksum of its text.
	ErrChecksum = errors.New("gzip: invalid checksum")
	// ErrCorrupt says that a member has no valid codes. Errors with the place match it.
	ErrCorrupt = errors.New("gzip: corrupt data")
)

const (
	window = 32 << 10 // the greatest distance of a match
	// inBytes is how much is read from the source at once, and textBytes how much is decoded at once. A core's cache has room for both.
	inBytes, textBytes = 32 << 10, 96 << 10
	// padding follows the last byte of the source, so that eight bytes can be loaded from any offset.
	padding = 32
	// stepText is the most text of a step of huffman, including the excess that it copies.
	stepText = 320
)

// Reader reads the text of a sequence of gzip members. It is not safe for concurrent use.
type Reader struct {
	using sync.Mutex // a driver that closes during a read must not give memory to the next reader
	src   io.Reader
	*memory
	at, end int // the bytes in[at:end] wait
	last    int // the end of the source in in once srcErr is set, otherwise end
	srcErr  error

	bits  uint64 // of in, the next one lowest. Above the first n it has the bits of in[at:], or zeros
	n     uint
	state func(*Reader) error
	final bool // the block is the last one of its member
	left  int  // of a stored block
	codes *tables
	// unpaired is how much text comes before the literals of codes are paired; 0 if they are.
	unpaired int

	from, to int // text[from:to] waits for Read
	begin    int // of the known part of the member in text
	sum      uint32
	size     uint32
	one      [1]byte // what header adds to sum
	err      error
}

// memory is what readers use one after the other.
type memory struct {
	in   [inBytes + padding]byte
	text [window + textBytes + stepText]byte
	own  tables // of the block
}

var memories = sync.Pool{New: func() any { return new(memory) }}

// NewReader reads the header of the first member. Its error is [io.EOF] if src is empty. The caller must call Close.
func NewReader(src io.Reader) (*Reader, error) {
	r := &Reader{src: src, memory: memories.Get().(*memory)}
	if err := r.header(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close gives the memory back. It does not close the source, and may be repeated. Read fails after it. A Close during a Read does nothing.
func (r *Reader) Close() error {
	if !r.using.TryLock() {
		return nil
	}
	defer r.using.Unlock()
	if r.memory != nil {
		memories.Put(r.memory)
		r.memory, r.from, r.to, r.err = nil, 0, 0, errors.New("gzip: the reader is closed")
	}
	return nil
}

// Read implements [io.Reader]. The sum of a member is checked at its end, so until [io.EOF] the text may be wrong. An error of the source is
// returned as it is, and [io.ErrUnexpectedEOF] if a member has no end.
func (r *Reader) Read(p []byte) (int, error) {
	r.using.Lock()
	defer r.using.Unlock()
	for r.from == r.to {
		if r.err != nil {
			return 0, r.err
		}
		if r.to > window+textBytes-stepText {
			copy(r.text[:window], r.text[r.to-window:r.to])
			r.begin = max(0, r.begin-(r.to-window))
			r.from, r.to = window, window
		}
		before := r.to
		r.err = r.state(r)
		r.sum = crc32.Update(r.sum, crc32.IEEETable, r.text[before:r.to])
		r.size += uint32(r.to - before)
	}
	n := copy(p, r.text[r.from:r.to])
	r.from += n
	return n, nil
}

// fill reads until so many bytes wait that a step of huffman has enough, or all that the source has, with padding.
func (r *Reader) fill() {
	if r.srcErr != nil {
		return
	}
	used := max(0, r.at-8) // align may give eight bytes back
	r.end = copy(r.in[:], r.in[used:r.end])
	r.at -= used
	for empty := 0; r.srcErr == nil && r.end-r.at < padding; {
		n, err := r.src.Read(r.in[r.end:inBytes])
		r.end += n
		if r.srcErr = err; n > 0 {
			empty = 0
		} else if empty++; empty == 100 && err == nil {
			r.srcErr = io.ErrNoProgress
		}
	}
	if r.last = r.end; r.srcErr != nil {
		clear(r.in[r.end:][:padding])
		r.end += padding
	}
}

// short returns the error of data that ends too early.
func (r *Reader) short() error {
	if r.srcErr == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return r.srcErr
}

// overrun reports whether more bits were used than the source has.
func (r *Reader) overrun() bool { return r.srcErr != nil && 8*r.at-int(r.n) > 8*r.last }

// take returns the next n bits, 16 at most.
func (r *Reader) take(n uint) (uint32, error) {
	if r.n < n {
		if r.at+8 > r.end {
			r.fill()
		}
		if r.at+8 > r.end {
			return 0, r.short()
		}
		r.refill()
	}
	v := uint32(r.bits) & (1<<n - 1)
	r.bits >>= n
	r.n -= n
	if r.overrun() {
		return 0, r.short()
	}
	return v, nil
}

// refill loads 56 bits or more. Eight bytes must wait.
func (r *Reader) refill() {
	r.bits |= binary.LittleEndian.Uint64(r.in[r.at:]) << r.n
	r.at += int(63-r.n) >> 3
	r.n |= 56
}

// align drops the bits of a byte that has begun, and gives whole bytes back.
func (r *Reader) align() {
	r.at -= int(r.n >> 3)
	r.bits, r.n = 0, 0
}

// next is for few bytes of headers. The bits must be aligned.
func (r *Reader) next() (byte, error) {
	if r.at >= r.last {
		if r.fill(); r.at >= r.last {
			return 0, r.short()
		}
	}
	b := r.in[r.at]
	r.at++
	return b, nil
}

// header reads the header of a member (RFC 1952, section 2.3). Its error is io.EOF if the source has ended.
func (r *Reader) header() error {
	const hasSum, hasExtra, hasName, hasComment, unknown = 1 << 1, 1 << 2, 1 << 3, 1 << 4, 0xe0
	if r.at >= r.last {
		if r.fill(); r.at >= r.last {
			return r.srcErr
		}
	}
	r.sum = 0
	next := func() (byte, error) {
		var err error
		r.one[0], err = r.next()
		r.sum = crc32.Update(r.sum, crc32.IEEETable, r.one[:])
		return r.one[0], err
	}
	flags := byte(0)
	for i, want := range [10]byte{0x1f, 0x8b, 8} {
		b, err := next()
		switch {
		case err != nil:
			return err
		case i < 3 && b != want, i == 3 && b&unknown != 0:
			return ErrHeader
		case i == 3:
			flags = b
		}
	}
	if flags&hasExtra != 0 {
		low, err := next()
		if err != nil {
			return err
		}
		high, err := next()
		if err != nil {
			return err
		}
		for range int(high)<<8 | int(low) {
			if _, err := next(); err != nil {
				return err
			}
		}
	}
	for _, flag := range []byte{hasName, hasComment} {
		for b := byte(1); flags&flag != 0 && b != 0; {
			var err error
			if b, err = next(); err != nil {
				return err
			}
		}
	}
	if flags&hasSum != 0 {
		want := uint16(r.sum)
		low, err := next()
		if err != nil {
			return err
		}
		high, err := next()
		if err != nil {
			return err
		}
		if want != uint16(high)<<8|uint16(low) {
			return ErrHeader
		}
	}
	r.begin, r.sum, r.size, r.state = r.to, 0, 0, (*Reader).block
	return nil
}

// trailer checks a member and begins the next one.
func (r *Reader) trailer() error {
	r.align()
	var sums [8]byte
	for i := range sums {
		var err error
		if sums[i], err = r.next(); err != nil {
			return err
		}
	}
	if binary.LittleEndian.Uint32(sums[:]) != r.sum || binary.LittleEndian.Uint32(sums[4:]) != r.size {
		return ErrChecksum
	}
	return r.header()
}

func corrupt(what string) error { return fmt.Errorf("%w: %s", ErrCorrupt, what) }

// block reads the header of a block (RFC 1951, section 3.2.3).
func (r *Reader) block() error {
	if r.final {
		r.final, r.state = false, (*Reader).trailer
		return nil
	}
	head, err := r.take(3)
	if err != nil {
		return err
	}
	r.final = head&1 == 1
	switch head >> 1 {
	case 0:
		r.align()
		var sizes [4]byte
		for i := range sizes {
			if sizes[i], err = r.next(); err != nil {
				return err
			}
		}
		size := binary.LittleEndian.Uint16(sizes[:])
		if size != ^binary.LittleEndian.Uint16(sizes[2:]) {
			return corrupt("two sizes of a stored block")
		}
		r.left, r.state = int(size), (*Reader).stored
		return nil
	case 1:
		r.codes, r.unpaired = fixedTables(), 0
	case 2:
		if err := r.readCodes(); err != nil {
			return err
		}
		r.codes = &r.own
	default:
		return corrupt("unknown kind of block")
	}
	r.state = (*Reader).huffman
	return nil
}

// readCodes reads the codes of a block (section 3.2.7).
func (r *Reader) readCodes() error {
	head, err := r.take(14)
	if err != nil {
		return err
	}
	literals, distances, count := int(head&31)+257, int(head>>5&31)+1, int(head>>10)+4
	if literals > literalSymbols || distances > distanceSymbols {
		return corrupt("too many codes")
	}
	var symbols [lengthSymbols]uint8
	for _, i := range []uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}[:count] {
		n, err := r.take(3)
		if err != nil {
			return err
		}
		symbols[i] = uint8(n)
	}
	var table [1 << lengthBits]uint32
	if !build(table[:], lengthBits, symbols[:], symbolEntries[:]) {
		return corrupt("codes of code lengths")
	}
	var lengths [literalSymbols + distanceSymbols]uint8
	for i := 0; i < literals+distances; {
		if r.n < 16 {
			if r.at+8 > r.end {
				r.fill()
			}
			if r.at+8 > r.end {
				return r.short()
			}
			r.refill()
		}
		e := table[r.bits&(1<<lengthBits-1)]
		if e&isSpecial != 0 {
			if r.overrun() {
				return r.short()
			}
			return corrupt("code of a code length")
		}
		r.bits >>= e & 0xff
		r.n -= uint(e & 0xff)
		symbol, repeated, times := e>>16, uint8(0), uint32(1)
		switch symbol {
		case 16:
			if i == 0 {
				return corrupt("repetition of no code length")
			}
			repeated = lengths[i-1]
			times, err = r.take(2)
			times += 3
		case 17:
			times, err = r.take(3)
			times += 3
		case 18:
			times, err = r.take(7)
			times += 11
		default:
			repeated = uint8(symbol)
		}
		if err != nil {
			return err
		}
		if r.overrun() {
			return r.short()
		}
		if i+int(times) > literals+distances {
			return corrupt("too many code lengths")
		}
		for range times {
			lengths[i] = repeated
			i++
		}
	}
	if !build(r.own.literals[:], literalBits, lengths[:literals], literalEntries[:]) ||
		!build(r.own.distances[:], distanceBits, lengths[literals:literals+distances], distanceEntries[:]) {
		return corrupt("codes")
	}
	r.unpaired = pairFrom
	return nil
}

// stored copies a stored block.
func (r *Reader) stored() error {
	for r.left > 0 && r.to < window+textBytes {
		if r.at >= r.last {
			if r.fill(); r.at >= r.last {
				return r.short()
			}
		}
		n := copy(r.text[r.to:min(r.to+r.left, window+textBytes)], r.in[r.at:r.last])
		r.to, r.at, r.left = r.to+n, r.at+n, r.left-n
	}
	if r.left == 0 {
		r.state = (*Reader).block
	}
	return nil
}
