package mapping

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// uuidSource makes UUIDs of version 7 (RFC 9562) that ascend: the 12 bits after the milliseconds hold the fraction of
// the millisecond (section 6.2, method 3), and a value that would not be above the last one takes the last one plus one.
// The other 62 bits are random. Safe for concurrent use.
type uuidSource struct {
	last atomic.Uint64 // milliseconds since 1970 in 52 bits, then the fraction in 12
}

const uuidTextLen = 36

func (s *uuidSource) appendText(dst []byte) []byte {
	t := time.Now()
	ns := uint64(t.UnixNano())
	ms := ns / 1_000_000
	tick := ms<<12 | (ns-ms*1_000_000)<<12/1_000_000
	for {
		last := s.last.Load()
		if tick <= last {
			tick = last + 1
		}
		if s.last.CompareAndSwap(last, tick) {
			break
		}
	}
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], tick>>12<<16|0x7000|tick&0xfff)
	binary.BigEndian.PutUint64(u[8:], rand.Uint64()>>2|1<<63)
	dst = grow(dst, uuidTextLen)
	out := dst[len(dst) : len(dst)+uuidTextLen]
	putHex(out, 0, u[0:4])
	out[8] = '-'
	putHex(out, 9, u[4:6])
	out[13] = '-'
	putHex(out, 14, u[6:8])
	out[18] = '-'
	putHex(out, 19, u[8:10])
	out[23] = '-'
	putHex(out, 24, u[10:16])
	return dst[:len(dst)+uuidTextLen]
}

func putHex(out []byte, at int, b []byte) {
	for _, c := range b {
		out[at] = hexDigits[c>>4]
		out[at+1] = hexDigits[c&0xf]
		at += 2
	}
}
