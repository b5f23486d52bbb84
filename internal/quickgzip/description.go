package quickgzip

// description is the header of a block with its own codes (RFC 1951, section 3.2.7), with the lengths of all codes in order,
// themselves encoded.
type description struct {
	literals  [literalSymbols]uint8
	distances [distanceSymbols]uint8

	literalCount, distanceCount int // without unused symbols at the end
	runs                        [literalSymbols + distanceSymbols]run
	runCount                    int
	lengths                     [runSymbols]uint8 // of the codes of runs
	lengthCount                 int               // in lengthOrder
}

// run is a symbol of the code for lengths: 0 to 15 are a length, the others repeat one.
type run struct{ symbol, extra uint8 }

const (
	repeatLength    = 16 // the previous length, 3 to 6 times
	repeatZero      = 17 // 3 to 10 times
	repeatManyZeros = 18 // 11 to 138 times
	runSymbols      = 19
	maxRunCode      = 7
)

var (
	// extraOfRun is the number of bits after the symbol.
	extraOfRun = [runSymbols]uint8{repeatLength: 2, repeatZero: 3, repeatManyZeros: 7}
	// lengthOrder is the order of the stream, in which rarely needed symbols come last.
	lengthOrder = [runSymbols]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
)

// init prepares the description of literals and distances and returns its size in bits.
func (d *description) init(h *huffman) int {
	d.literalCount, d.distanceCount = literalSymbols, distanceSymbols
	for d.literals[d.literalCount-1] == 0 { // the end of the block always has a code
		d.literalCount--
	}
	for d.distances[d.distanceCount-1] == 0 { // at least two distances have a code
		d.distanceCount--
	}
	var all [literalSymbols + distanceSymbols]uint8
	n := copy(all[:], d.literals[:d.literalCount])
	n += copy(all[n:], d.distances[:d.distanceCount])
	counts := d.findRuns(all[:n])
	h.lengths(d.lengths[:], counts[:], maxRunCode)
	d.lengthCount = runSymbols
	for d.lengths[lengthOrder[d.lengthCount-1]] == 0 {
		d.lengthCount--
	}
	size := 5 + 5 + 4 + 3*d.lengthCount + bitsOf(d.lengths[:], counts[:])
	for symbol, extra := range extraOfRun {
		size += int(counts[symbol]) * int(extra)
	}
	return size
}

// findRuns returns how often each symbol of a run occurs.
func (d *description) findRuns(all []uint8) (counts [runSymbols]uint32) {
	d.runCount = 0
	add := func(symbol uint8, extra int) {
		d.runs[d.runCount] = run{symbol, uint8(extra)}
		d.runCount++
		counts[symbol]++
	}
	for len(all) > 0 {
		length, n := all[0], 1
		for n < len(all) && all[n] == length {
			n++
		}
		all = all[n:]
		if length > 0 {
			add(length, 0)
			n--
		}
		for n >= 3 {
			part := min(n, 138)
			switch {
			case length > 0:
				part = min(n, 6)
				add(repeatLength, part-3)
			case part > 10:
				add(repeatManyZeros, part-11)
			default:
				add(repeatZero, part-3)
			}
			n -= part
		}
		for range n {
			add(length, 0)
		}
	}
	return counts
}

func (d *description) write(w *bitWriter) {
	w.put(uint64(d.literalCount-257)|uint64(d.distanceCount-1)<<5|uint64(d.lengthCount-4)<<10, 14)
	for _, symbol := range lengthOrder[:d.lengthCount] {
		w.put(uint64(d.lengths[symbol]), 3)
	}
	var of [runSymbols]uint32
	assign(of[:], d.lengths[:])
	for _, r := range d.runs[:d.runCount] {
		code := of[r.symbol]
		n := uint(code & 255)
		w.put(uint64(code>>8)|uint64(r.extra)<<n, n+uint(extraOfRun[r.symbol]))
	}
}

// fixedLengths are the lengths of the predefined codes (RFC 1951, section 3.2.6). The last two literals never occur, but
// they take part in the assignment of codes.
func fixedLengths() (literals [literalSymbols + 2]uint8, distances [distanceSymbols]uint8) {
	for symbol := range literals {
		switch {
		case symbol < 144, symbol >= 280:
			literals[symbol] = 8
		case symbol < 256:
			literals[symbol] = 9
		default:
			literals[symbol] = 7
		}
	}
	for symbol := range distances {
		distances[symbol] = 5
	}
	return literals, distances
}
