package mapping

import (
	"encoding/binary"
	"time"
)

// appendDatetime appends t in UTC as 2006-01-02T15:04:05.000Z. The zero time is nothing.
func appendDatetime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	}
	hour, minute, sec := t.Clock()
	ms := t.Nanosecond() / 1_000_000
	dst = append(dst, "2006-01-02T15:04:05.000Z"...)
	out := dst[len(dst)-len("2006-01-02T15:04:05.000Z"):]
	putDigits(out[0:], year/100)
	putDigits(out[2:], year%100)
	putDigits(out[5:], int(month))
	putDigits(out[8:], day)
	putDigits(out[11:], hour)
	putDigits(out[14:], minute)
	putDigits(out[17:], sec)
	out[20] = byte('0' + ms/100)
	putDigits(out[21:], ms%100)
	return dst
}

// putDigits writes a number below 100 as two digits.
func putDigits(out []byte, n int) {
	tens := uint(n) * 103 >> 10 // n / 10 for n up to 178
	binary.LittleEndian.PutUint16(out, uint16(tens|(uint(n)-tens*10)<<8|'0'|'0'<<8))
}
