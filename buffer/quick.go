package buffer

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// quickTable is the number of places that quick remembers: enough for compressMin bytes, and cleared in no time.
const quickTable = 1 << 10

// quick makes gzip members of chunks below compressMin. It looks for matches as snappy does and writes them with the
// fixed codes of DEFLATE (RFC 1951, section 3.2.6). The usual compressor computes codes for each member, which takes
// several times as long as all the rest of a row, for a chunk that is hardly longer than the description of the codes.
//
// Its zero value is ready. It is not safe for concurrent use.
type quick struct {
	table [quickTable]uint16
	// Codes in the order of the stream, with their number of bits in the upper byte; those of lengths have their extra bits.
	literals [256]uint32
	lengths  [maxMatch + 1]uint32
}

const (
	minMatch = 4
	maxMatch = 258
)

// gzipHead has no name and no time, and leaves the system unknown.
const gzipHead = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

func (q *quick) init() {
	reversed := func(code uint32, n int) uint32 { return bits.Reverse32(code) >> (32 - n) }
	for v := range uint32(144) {
		q.literals[v] = reversed(0x30+v, 8) | 8<<24
	}
	for v := uint32(144); v < 256; v++ {
		q.literals[v] = reversed(0x190+v-144, 9) | 9<<24
	}
	length, symbol := 3, uint32(257)
	for symbol < 285 {
		extra := 0
		if symbol >= 265 {
			extra = int(symbol-261) / 4
		}
		code, n := reversed(symbol-256, 7), 7
		if symbol >= 280 {
			code, n = reversed(0xc0+symbol-280, 8), 8
		}
		for e := range uint32(1) << extra {
			q.lengths[length] = code | e<<n | uint32(n+extra)<<24
			length++
		}
		symbol++
	}
	q.lengths[maxMatch] = reversed(0xc0+5, 8) | 8<<24
}

// quickRoom is what append may write for n bytes.
func quickRoom(n int) int { return n + n/8 + 64 }

// append adds a member with src to dst, which has quickRoom for it. It returns nil when the compressed bytes, without head
// and sums, are more than half of src. No distance may pass the 32 KiB of DEFLATE, so src is no longer than that.
func (q *quick) append(dst, src []byte) []byte {
	if q.lengths[maxMatch] == 0 {
		q.init()
	}
	clear(q.table[:])
	var (
		head    = append(dst, gzipHead...)
		out     = bitWriter{out: head[:cap(head)], end: len(head), acc: 0b011, n: 3} // the only block, fixed codes
		most    = out.end + len(src)/2
		literal = 0 // where the bytes begin that are not written
	)
	for at := 1; at+8 <= len(src); {
		next := binary.LittleEndian.Uint32(src[at:])
		slot := &q.table[next*0x1e35a7bd>>(32-10)]
		before := int(*slot)
		*slot = uint16(at)
		if next != binary.LittleEndian.Uint32(src[before:]) {
			at += 1 + (at-literal)>>5 // steps grow where nothing repeats
			continue
		}
		out.literals(q, src[literal:at])
		length := minMatch + commonPrefix(src[at+minMatch:], src[before+minMatch:])
		distance := distanceCode(uint32(at - before))
		at += length
		literal = at
		for length > 0 {
			part := min(length, maxMatch)
			if rest := length - part; rest > 0 && rest < 3 {
				part -= 3 // three is the shortest
			}
			length -= part
			out.put(q.lengths[part])
			out.put(distance)
			out.spill()
		}
		if out.end > most {
			return nil
		}
	}
	out.literals(q, src[literal:])
	out.n += 7 // the end of the block is seven zeros
	if out.close(); out.end > most {
		return nil
	}
	done := binary.LittleEndian.AppendUint32(out.out[:out.end], crc32.ChecksumIEEE(src))
	return binary.LittleEndian.AppendUint32(done, uint32(len(src)))
}

// distanceCode is the code of a distance from 1 on, with its extra bits.
func distanceCode(distance uint32) uint32 {
	d := distance - 1
	if d < 4 {
		return bits.Reverse32(d)>>27 | 5<<24
	}
	extra := bits.Len32(d) - 2
	symbol := uint32(2*extra+2) + d>>extra&1
	return bits.Reverse32(symbol)>>27 | (d&(1<<extra-1))<<5 | uint32(5+extra)<<24
}

// bitWriter writes codes, the first in the lowest bits. Between its steps n is below 32.
type bitWriter struct {
	out []byte
	end int // what was written of out
	acc uint64
	n   uint // bits in acc
}

func (w *bitWriter) put(code uint32) {
	w.acc |= uint64(code&0xffffff) << w.n
	w.n += uint(code >> 24)
}

func (w *bitWriter) spill() {
	if w.n >= 32 {
		binary.LittleEndian.PutUint32(w.out[w.end:], uint32(w.acc))
		w.end += 4
		w.acc >>= 32
		w.n -= 32
	}
}

// literals writes three codes a step, of at most nine bits each.
func (w *bitWriter) literals(q *quick, src []byte) {
	acc, n, end := w.acc, w.n, w.end
	for len(src) > 0 {
		for _, v := range src[:min(len(src), 3)] {
			code := q.literals[v]
			acc |= uint64(code&0xffff) << (n & 63)
			n += uint(code >> 24)
		}
		src = src[min(len(src), 3):]
		binary.LittleEndian.PutUint32(w.out[end:], uint32(acc))
		spilled := n & 32 // all of 32 bits or none
		end += int(spilled / 8)
		acc >>= spilled
		n -= spilled
	}
	w.acc, w.n, w.end = acc, n, end
}

// close writes what is left, to the end of a byte.
func (w *bitWriter) close() {
	w.spill()
	binary.LittleEndian.PutUint32(w.out[w.end:], uint32(w.acc))
	w.end += int(w.n+7) / 8
}

// commonPrefix returns how many bytes a has in common with b, which is longer.
func commonPrefix(a, b []byte) int {
	n := 0
	for ; n+8 <= len(a); n += 8 {
		if diff := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); diff != 0 {
			return n + bits.TrailingZeros64(diff)/8
		}
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}
