package mapping

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// uuidSource makes UUIDs of version 7 (RFC 9562) that ascend. The 12 bits after the milliseconds hold the fraction of
// the millisecond (section 6.2, method 3), and a value that would not be above the last one takes the last one plus one.
// The other 62 bits are random. Safe for concurrent use after begin.
type uuidSource struct {
	last  atomic.Uint64 // milliseconds since 1970 in 52 bits, then the fraction in 12
	start time.Time
	// wall is the wall clock's time at start. It is computed again when checked, a time since start, is long ago, so that
	// it follows a wall clock that was set. To read only the monotonic clock takes half the time of reading both.
	wall, checked atomic.Int64
}

const uuidTextLen = 36

// wallCheck is how long a change of the wall clock may go unnoticed.
const wallCheck = time.Second

func (s *uuidSource) begin() {
	s.start = time.Now()
	s.wall.Store(s.start.UnixNano())
}

// now returns nanoseconds since 1970.
func (s *uuidSource) now() uint64 {
	since := int64(time.Since(s.start))
	// A clock that seems to run backwards belongs to a synctest bubble.
	if uint64(since-s.checked.Load()) > uint64(wallCheck) {
		s.wall.Store(time.Now().UnixNano() - since)
		s.checked.Store(since)
	}
	return uint64(s.wall.Load() + since)
}

func (s *uuidSource) appendText(dst []byte) []byte {
	ns := s.now()
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
	high, low := tick>>12<<16|0x7000|tick&0xfff, rand.Uint64()>>2|1<<63
	dst = slices.Grow(dst, uuidTextLen)
	n := len(dst)
	dst = dst[:n+uuidTextLen]
	out := dst[n:]
	binary.LittleEndian.PutUint64(out[0:], hexText(uint32(high>>32)))
	putGroups(out[8:], hexText(uint32(high)))
	putGroups(out[18:], hexText(uint32(low>>32)))
	binary.LittleEndian.PutUint64(out[28:], hexText(uint32(low)))
	return dst
}

// putGroups writes two groups of four digits, each with a dash before it.
func putGroups(out []byte, digits uint64) {
	out[0] = '-'
	binary.LittleEndian.PutUint32(out[1:], uint32(digits))
	out[5] = '-'
	binary.LittleEndian.PutUint32(out[6:], uint32(digits>>32))
}

const ones = 0x0101010101010101

// hexText returns the eight hexadecimal digits of x, the first in the lowest byte.
func hexText(x uint32) uint64 {
	v := uint64(bits.ReverseBytes32(x))
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = v>>4&0x000f000f000f000f | v<<8&0x0f000f000f000f00 // a nibble a byte
	letters := (v + 6*ones) >> 4 & ones                   // 1 for a to f
	return v + '0'*ones + letters*('a'-'0'-10)
}
