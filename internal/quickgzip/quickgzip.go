// Package quickgzip makes gzip members of CSV rows, faster than general compressors. Any gzip reader reads them.
//
// An [Encoder] is for texts of a few KiB. It looks for matches as snappy does and writes them with DEFLATE's predefined
// codes (RFC 1951, section 3.2.6). Computing codes for each member, as usual compressors do, would take several times as
// long as all other work on a row, and their description would be about as long as the text.
//
// A [LongEncoder] is for texts from 4 KiB on. It computes codes for each 64 KiB (section 3.2.7), but looks for matches at
// few places and remembers one place for each hash. Compared with klauspost/compress at level 1, rows of random words and
// numbers take 0.75 (16 KiB) and 0.82 (128 KiB) of the time for as many bytes (BenchmarkMember, 2026-11-22, Intel Xeon).
// Rows that repeat more gain more.
package quickgzip

import (
	"encoding/binary"
	"hash/crc32"
)

// Encoder makes members of short texts. It reuses its memory. Its zero value is ready. It is not safe for concurrent use.
type Encoder struct {
	matcher
	fixed codes
	ready bool // fixed is made
}

// gzipHead has no name, no time and an unknown system.
const gzipHead = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// Room is the number of bytes that Append of both encoders may write for n bytes of text. It is enough for stored blocks, which
// add five bytes for each 64 KiB, and for words written beyond the end.
func Room(n int) int { return n + n/8 + 64 }

// Append appends a member with src to dst, which must have [Room] for it. It returns nil if the compressed bytes, without
// header and sums, are more than half of src, or if src is longer than [Longest].
func (e *Encoder) Append(dst, src []byte) []byte {
	if len(src) > Longest {
		return nil
	}
	if !e.ready {
		literals, distances := fixedLengths()
		e.fixed.init(literals[:], distances[:])
		e.ready = true
	}
	var (
		head = append(dst, gzipHead...)
		out  = bitWriter{out: head[:cap(head)], end: len(head), acc: 0b011, n: 3} // the only block, predefined codes
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
