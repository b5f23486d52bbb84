package otlpflat

import "time"

// dateCache remembers the text of the last date, because the records of a batch usually share their day.
type dateCache struct {
	day  uint64
	text [len("2006-01-02T")]byte
}

// appendTime appends nanoseconds since 1970 as RFC 3339 in UTC, with up to nine digits of a second and without trailing
// zeros.
func (c *dateCache) appendTime(dst []byte, nanos uint64) []byte {
	const perDay = 24 * 60 * 60
	seconds := nanos / 1e9
	fraction := uint32(nanos % 1e9)
	day, s := seconds/perDay, uint32(seconds%perDay)
	if day != c.day || c.text[0] == 0 {
		c.day = day
		time.Unix(int64(day)*perDay, 0).UTC().AppendFormat(c.text[:0], "2006-01-02T")
	}
	dst = append(dst, c.text[:]...)
	hour, minute, second := s/3600, s/60%60, s%60
	dst = append(dst,
		byte('0'+hour/10), byte('0'+hour%10), ':',
		byte('0'+minute/10), byte('0'+minute%10), ':',
		byte('0'+second/10), byte('0'+second%10))
	if fraction != 0 {
		digits := [...]byte{'.', '0', '0', '0', '0', '0', '0', '0', '0', '0'}
		for i := len(digits) - 1; i > 0; i-- {
			digits[i] = byte('0' + fraction%10)
			fraction /= 10
		}
		n := len(digits)
		for digits[n-1] == '0' {
			n--
		}
		dst = append(dst, digits[:n]...)
	}
	return append(dst, 'Z')
}
