// Package quickgzip makes gzip members of rows, faster than compressors for everything.
//
// An [Encoder] is for short texts, of a few KiB at most. It looks for matches as snappy does and writes them with the fixed
// codes of DEFLATE (RFC 1951, section 3.2.6). The usual compressor computes codes for each member, which takes several times
// as long as all the rest of a row, for a text that is hardly longer than the description of the codes.
//
// A [LongEncoder] is for texts from 4 KiB on, and makes a valid member of whatever it is given. It computes codes for each
// 64 KiB (section 3.2.7), but looks for matches at few places, and knows one for each hash. For rows of random words and
// numbers in chunks of 16 and 128 KiB it takes 0.75 and 0.82 of the time of klauspost/compress at level 1 and makes as many
// bytes (BenchmarkMember, 2026-11-22, Intel Xeon). For rows that repeat more it gains more.
package quickgzip

import (
	"encoding/binary"
	"hash/crc32"
)

// Encoder makes members of short texts. It keeps its memory from one to the next. Its zero value is ready. It is not safe
// for concurrent use.
type Encoder struct {
	matcher
	fixed fixedCodes
}

// gzipHead has no name and no time, and leaves the system unknown.
const gzipHead = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// Room is what both kinds of Append may write for n bytes. It suffices for stored blocks, of which there is one per 64 KiB
// and which have five bytes more than their text; and for the words that are written beyond the end.
func Room(n int) int { return n + n/8 + 64 }

// Append adds a member with src to dst, which has Room for it. It returns nil when the compressed bytes, without head
// and sums, are more than half of src, or src is longer than Longest.
func (e *Encoder) Append(dst, src []byte) []byte {
	if len(src) > Longest {
		return nil
	}
	if !e.fixed.ready {
		e.fixed.init()
	}
	var (
		head = append(dst, gzipHead...)
		out  = bitWriter{out: head[:cap(head)], end: len(head), acc: 0b011, n: 3} // the only block, fixed codes
		most = out.end + len(src)/2
		at   = 0
	)
	for _, p := range e.find(src) {
		next := at + int(p.literals)
		out.fixedLiterals(&e.fixed, src, at, next)
		if p.length > 0 {
			out.fixedMatch(&e.fixed, int(p.length), int(p.distance))
		}
		at = next + int(p.length)
		if out.end > most {
			return nil
		}
	}
	out.n += 7 // the end of the block is seven zeros
	if out.close(); out.end > most {
		return nil
	}
	done := binary.LittleEndian.AppendUint32(out.out[:out.end], crc32.ChecksumIEEE(src))
	return binary.LittleEndian.AppendUint32(done, uint32(len(src)))
}
