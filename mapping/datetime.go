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
	ms := t.Nanosecond() / 1_000_000
	dst = append(dst, "2006-01-02T15:04:05.000Z"...)
	out := dst[len(dst)-len("2006-01-02T15:04:05.000Z"):]
	putSeconds(out, t, year, int(month), day)
	out[20] = byte('0' + ms/100)
	putDigits(out[21:], ms%100)
	return dst
}

// appendTimestamp appends t in UTC as 2006-01-02T15:04:05.000000Z, the cell of a timestamp. ok is false outside of the years 1 to
// 9999.
func appendTimestamp(dst []byte, t time.Time) (_ []byte, ok bool) {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 1 || year > 9999 {
		return dst, false
	}
	micros := t.Nanosecond() / 1000
	dst = append(dst, "2006-01-02T15:04:05.000000Z"...)
	out := dst[len(dst)-len("2006-01-02T15:04:05.000000Z"):]
	putSeconds(out, t, year, int(month), day)
	putDigits(out[20:], micros/10_000)
	putDigits(out[22:], micros/100%100)
	putDigits(out[24:], micros%100)
	return dst, true
}

// putSeconds writes the digits of the date and of the time down to the second into 2006-01-02T15:04:05.
func putSeconds(out []byte, t time.Time, year, month, day int) {
	hour, minute, sec := t.Clock()
	putDigits(out[0:], year/100)
	putDigits(out[2:], year%100)
	putDigits(out[5:], month)
	putDigits(out[8:], day)
	putDigits(out[11:], hour)
	putDigits(out[14:], minute)
	putDigits(out[17:], sec)
}

// putDigits writes a number below 100 as two digits.
func putDigits(out []byte, n int) {
	tens := uint(n) * 103 >> 10 // n / 10 for n up to 178
	binary.LittleEndian.PutUint16(out, uint16(tens|(uint(n)-tens*10)<<8|'0'|'0'<<8))
}
