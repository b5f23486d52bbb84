package mapping

import "time"

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
	return append(dst,
		digit(year/1000), digit(year/100), digit(year/10), digit(year), '-',
		digit(int(month)/10), digit(int(month)), '-', digit(day/10), digit(day), 'T',
		digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':', digit(sec/10), digit(sec), '.',
		digit(ms/100), digit(ms/10), digit(ms), 'Z')
}

func digit(n int) byte { return byte('0' + n%10) }
