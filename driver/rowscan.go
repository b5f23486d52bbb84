package driver

import (
	"math/bits"

	"github.com/forebay/forebay/driverkit/quotes"
)

const (
	readerBytes = 64 << 10     // of a RowReader's buffer
	scanBytes   = quotes.Bytes // have one mask
	copyBytes   = 16           // are copied at once
)

// scan finds the cells of the next row in one pass, if buffered holds all of it and scanBytes more. It returns the length of the row with its
// end. Otherwise, and if the row has a fault, it returns 0. It leaves buffered as it is, because readRow may have to read it again.
//
// It looks for quotes in scanBytes at once. The design that lost calls bytes.IndexByte for each quote, which takes as long as the rest.
func (r *RowReader) scan(buffered []byte) int {
	if len(buffered) < scanBytes {
		return 0
	}
	unescaped, at := 0, 0
	base, mask := 0, quotes.Of((*[scanBytes]byte)(buffered)) // of quotes that are not found yet
	for {
		var cell []byte
		if buffered[at] == '"' {
			for mask == 0 {
				if base += scanBytes; base+scanBytes > len(buffered) {
					return 0
				}
				mask = quotes.Of((*[scanBytes]byte)(buffered[base:]))
			}
			mask &= mask - 1 // the one at at
			begin, cellBegin := at+1, unescaped
			for {
				for mask == 0 {
					if base += scanBytes; base+scanBytes > len(buffered) {
						return 0
					}
					mask = quotes.Of((*[scanBytes]byte)(buffered[base:]))
				}
				at = base + bits.TrailingZeros64(mask)
				mask &= mask - 1
				if at+1 >= len(buffered) {
					return 0
				}
				if buffered[at+1] != '"' {
					break
				}
				unescaped = r.keep(unescaped, buffered[begin:], at+1-begin)
				begin = at + 2
				for mask == 0 {
					if base += scanBytes; base+scanBytes > len(buffered) {
						return 0
					}
					mask = quotes.Of((*[scanBytes]byte)(buffered[base:]))
				}
				mask &= mask - 1 // the second quote
			}
			if unescaped == cellBegin {
				cell = buffered[begin:at:at]
			} else {
				unescaped = r.keep(unescaped, buffered[begin:], at-begin)
				cell = r.cellBytes[cellBegin:unescaped:unescaped]
			}
			at++
		} else {
			begin := at
			for at < len(buffered) && buffered[at] != ',' && buffered[at] != '\n' {
				if buffered[at] == '"' {
					return 0
				}
				at++
			}
			if at > begin {
				cell = buffered[begin:at:at]
			}
		}
		r.cells = append(r.cells, cell)
		switch {
		case at+1 >= len(buffered):
			return 0
		case buffered[at] == '\n':
			return at + 1
		case buffered[at] != ',':
			return 0
		}
		at++
	}
}

// keep copies the first n bytes of in to cellBytes[to:] and returns the place after them.
func (r *RowReader) keep(to int, in []byte, n int) int {
	if r.cellBytes == nil {
		r.cellBytes = make([]byte, readerBytes+copyBytes)
	}
	if len(in) < copyBytes || n > copyBytes {
		return to + copy(r.cellBytes[to:], in[:n])
	}
	*(*[copyBytes]byte)(r.cellBytes[to:]) = *(*[copyBytes]byte)(in) // excess bytes are overwritten later
	return to + n
}
