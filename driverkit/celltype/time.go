package celltype

import (
	"encoding/binary"
	"math"
	"strconv"
)

// AppendDate appends a date, YYYY-MM-DD, of the years 1 to 9999.
func AppendDate(dst, text []byte) ([]byte, Reason) {
	year, _, _, reason := parseDate(text)
	switch {
	case reason != OK:
		return dst, reason
	case len(text) > len("2006-01-02"):
		return dst, Malformed
	case year == 0:
		return dst, OutOfRange
	}
	return append(dst, text...), OK
}

// AppendTimestamp appends a time in UTC as YYYY-MM-DDThh:mm:ss.ffffffZ. It accepts RFC 3339, with t, z, and one space in
// place of T. Digits below a microsecond are dropped. The time must be in the years 1 to 9999 of UTC. A time without Z or an
// offset counts as UTC if assumeUTC is set.
func AppendTimestamp(dst, text []byte, assumeUTC bool) ([]byte, Reason) {
	if len(text) >= len("2006-01-02T15:04:05Z") {
		if out, ok := appendUTC(dst, text); ok {
			return out, OK
		}
	}
	year, month, day, reason := parseDate(text)
	if reason != OK {
		return dst, reason
	}
	if len(text) < 19 || text[10]|0x20 != 't' && text[10] != ' ' || text[13] != ':' || text[16] != ':' {
		return dst, Malformed
	}
	hour, minute, second := two(text[11:]), two(text[14:]), two(text[17:])
	if hour < 0 || minute < 0 || second < 0 {
		return dst, Malformed
	}
	rest := text[19:]
	micros := [6]byte{'0', '0', '0', '0', '0', '0'}
	if len(rest) > 0 && rest[0] == '.' {
		var frac []byte
		if frac, rest = digits(rest[1:]); len(frac) == 0 {
			return dst, Malformed
		}
		copy(micros[:], frac)
	}
	offset, reason := parseZone(rest, assumeUTC)
	switch {
	case reason != OK:
		return dst, reason
	case second == 60:
		return dst, LeapSecond
	case hour > 23 || minute > 59 || second > 59:
		return dst, OutOfRange
	case offset == 0 && year == 0:
		return dst, OutOfRange
	case offset == 0: // the digits are copied as they are
		dst = append(append(dst, text[:19]...), '.', micros[0], micros[1], micros[2], micros[3], micros[4], micros[5], 'Z')
		dst[len(dst)-len("T15:04:05.000000Z")] = 'T'
		return dst, OK
	}
	days := dayNumber(year, month, day)
	ofDay := hour*60 + minute - offset // minutes of the day in UTC, perhaps in the day before or after
	if ofDay < 0 {
		days, ofDay = days-1, ofDay+24*60
	} else if ofDay >= 24*60 {
		days, ofDay = days+1, ofDay-24*60
	}
	if days < minDay || days > maxDay {
		return dst, OutOfRange
	}
	dst = appendClock(appendDate(dst, days), ofDay*60+second)
	return append(append(append(dst, '.'), micros[:]...), 'Z'), OK
}

// AppendLeapSecond is AppendTimestamp for a text that it refuses as a [LeapSecond]. The second 60 becomes the last microsecond of
// second 59. Leap seconds are at the end of a month in UTC, and any other second 60 is refused still.
func AppendLeapSecond(dst, text []byte, assumeUTC bool) ([]byte, Reason) {
	rest := text[len("2006-01-02T15:04:05"):]
	if len(rest) > 0 && rest[0] == '.' {
		_, rest = digits(rest[1:])
	}
	var buf [len("2006-01-02T15:04:05.999999+00:00")]byte
	before := append(append(append(buf[:0], text[:len("2006-01-02T15:04:")]...), "59.999999"...), rest...)
	out, reason := AppendTimestamp(dst, before, assumeUTC)
	if reason != OK {
		return dst, reason
	}
	cell := out[len(dst):]
	year, month, day, _ := parseDate(cell)
	if string(cell[len("2006-01-02"):]) != "T23:59:59.999999Z" || day != monthLength(year, month) {
		return dst, LeapSecond
	}
	return out, OK
}

// appendUTC is AppendTimestamp for the usual form, which differs from the cell only in the digits of the fraction. For others ok
// is false.
func appendUTC(dst, text []byte) (_ []byte, ok bool) {
	const digit, exactly = 0x7f - 9, 0x7f // added to a byte, these set its highest bit if it is above 9, or not 0
	date := binary.LittleEndian.Uint64(text) ^ binary.LittleEndian.Uint64([]byte("0000-00-"))
	clock := binary.LittleEndian.Uint64(text[8:]) ^ binary.LittleEndian.Uint64([]byte("00T00:00"))
	bad := date | (date + (digit*ones + (exactly-digit)<<32 + (exactly-digit)<<56)) |
		clock | (clock + (digit*ones + (exactly-digit)<<16 + (exactly-digit)<<40))
	if bad&highs != 0 || text[16] != ':' || text[len(text)-1] != 'Z' {
		return dst, false
	}
	pair := func(word uint64, at int) int { return int(word>>(8*at)&0xf)*10 + int(word>>(8*at+8)&0xf) }
	year, month, day := pair(date, 0)*100+pair(date, 2), pair(date, 5), pair(clock, 0)
	second := two(text[17:])
	if year == 0 || month-1 > 11 || month == 0 || day == 0 || day > 28 && day > monthLength(year, month) ||
		pair(clock, 3) > 23 || pair(clock, 6) > 59 || second < 0 || second > 59 {
		return dst, false
	}
	n := len(dst)
	dst = append(dst, "0000-00-00T00:00:00.000000Z"...)
	out := dst[n : n+len("0000-00-00T00:00:00.000000Z")]
	binary.LittleEndian.PutUint64(out, binary.LittleEndian.Uint64(text))
	binary.LittleEndian.PutUint64(out[8:], binary.LittleEndian.Uint64(text[8:]))
	out[17], out[18] = text[17], text[18]
	frac := text[19 : len(text)-1]
	if len(frac) == 0 {
		return dst, true
	}
	if len(frac) == 1 || frac[0] != '.' || !allDigits(frac[1:]) {
		return dst[:n], false
	}
	for i := 1; i < len(frac) && i <= 6; i++ {
		out[19+i] = frac[i]
	}
	return dst, true
}

// appendClock appends T and the time of day.
func appendClock(dst []byte, second int) []byte {
	dst = appendTwo(append(dst, 'T'), second/3600)
	dst = appendTwo(append(dst, ':'), second/60%60)
	return appendTwo(append(dst, ':'), second%60)
}

// Epoch is the unit of a time that is counted from 1970-01-01T00:00:00Z.
type Epoch string

// Valid reports whether e is a unit.
func (e Epoch) Valid() bool {
	_, ok := e.shift()
	return ok
}

// shift is how many digits the point moves to the right to make microseconds.
func (e Epoch) shift() (digits int64, ok bool) {
	switch e {
	case "s":
		return 6, true
	case "ms":
		return 3, true
	case "us":
		return 0, true
	case "ns":
		return -3, true
	}
	return 0, false
}

const (
	microsOfDay = 24 * 60 * 60 * 1_000_000
	// epochDay is the day 1970-01-01.
	epochDay = 719468
	// maxMicrosDigits are enough for the microseconds from 1970 to either end of the range.
	maxMicrosDigits = 18
)

// AppendEpoch is AppendTimestamp for a number of units since 1970. Digits below a microsecond are dropped towards the past,
// so that a time before 1970 keeps its day.
func AppendEpoch(dst, text []byte, unit Epoch) ([]byte, Reason) {
	n, reason := parseNumber(text)
	if reason != OK {
		return dst, reason
	}
	shift, _ := unit.shift()
	n.exponent += shift
	if n.wholeDigits() > maxMicrosDigits && !n.zero() {
		return dst, OutOfRange
	}
	var micros int64
	if !n.zero() {
		for at := n.first; at < n.point(); at++ {
			micros = micros*10 + int64(n.digit(at)-'0')
		}
		if n.negative {
			if micros = -micros; n.fractionDigits() > 0 {
				micros--
			}
		}
	}
	days, ofDay := micros/microsOfDay, micros%microsOfDay
	if ofDay < 0 {
		days, ofDay = days-1, ofDay+microsOfDay
	}
	if days += epochDay; days < minDay || days > maxDay {
		return dst, OutOfRange
	}
	dst = appendClock(appendDate(dst, int(days)), int(ofDay/1_000_000))
	dst = append(dst, '.')
	below := int(ofDay % 1_000_000)
	dst = appendTwo(appendTwo(appendTwo(dst, below/10_000), below/100%100), below%100)
	return append(dst, 'Z'), OK
}

// AppendNanos is [Converter.Append] for the text of a time that is known as a number of nanoseconds since 1970. If ok is false, nothing was appended,
// and the text must be converted because the number is 0, or the type, the bounds or the limits of the column are special.
func (c *Converter) AppendNanos(dst []byte, nanos uint64) (_ []byte, ok bool) {
	switch {
	case nanos == 0 || c.limits.MaxCell > 0 && c.limits.MaxCell < len("2006-01-02T15:04:05.000000Z"):
	case c.base == baseTimestamp && !c.bounded:
		seconds := nanos / 1e9
		const secondsOfDay = 24 * 60 * 60
		dst = appendClock(appendDate(dst, epochDay+int(seconds/secondsOfDay)), int(seconds%secondsOfDay))
		micros := int(nanos % 1e9 / 1e3)
		dst = appendTwo(append(dst, '.'), micros/10_000)
		return append(appendTwo(appendTwo(dst, micros/100%100), micros%100), 'Z'), true
	case c.base == baseInt64 && c.rules.Epoch == "ns" && nanos <= math.MaxInt64:
		return strconv.AppendUint(dst, nanos, 10), true
	}
	return dst, false
}

// AppendUnits appends how many whole units lie between 1970-01-01T00:00:00Z and a time that [AppendTimestamp] takes, as an int64 of
// decimal digits. Digits below the unit are dropped towards the past. Nanoseconds reach from
// 1677-09-21T00:12:43.145224192Z to 2262-04-11T23:47:16.854775807Z. A time beyond is [OutOfRange].
func AppendUnits(dst, text []byte, unit Epoch) ([]byte, Reason) {
	var buf [len("2006-01-02T15:04:05.999999Z")]byte
	cell, reason := AppendTimestamp(buf[:0], text, false)
	if reason != OK {
		return dst, reason
	}
	year, month, day, _ := parseDate(cell)
	days := int64(dayNumber(year, month, day) - epochDay)
	n := days*(24*60*60) + int64(two(cell[11:])*3600+two(cell[14:])*60+two(cell[17:]))
	micros := int64(two(cell[20:])*10_000 + two(cell[22:])*100 + two(cell[24:]))
	switch unit {
	case "ms":
		n = n*1_000 + micros/1_000
	case "us":
		n = n*1_000_000 + micros
	case "ns":
		below := micros*1_000 + belowMicros(text)
		if n < 0 { // with one sign, no intermediate result is beyond the ends that the sum is within
			n, below = n+1, below-1_000_000_000
		}
		if n < -9_223_372_036 || n > 9_223_372_036 {
			return dst, OutOfRange
		}
		n *= 1_000_000_000
		if below < math.MinInt64-min(n, 0) || below > math.MaxInt64-max(n, 0) {
			return dst, OutOfRange
		}
		n += below
	}
	return strconv.AppendInt(dst, n, 10), OK
}

// belowMicros returns the digits 7 to 9 of the second of a time, whose form is known to be right.
func belowMicros(text []byte) (nanos int64) {
	const point = len("2006-01-02T15:04:05")
	if len(text) <= point || text[point] != '.' {
		return 0
	}
	for at, unit := point+1, int64(100_000_000); at < len(text) && text[at]-'0' <= 9 && unit > 0; at, unit = at+1, unit/10 {
		if unit <= 100 {
			nanos += int64(text[at]-'0') * unit
		}
	}
	return nanos
}

// parseZone reads Z or ±hh:mm and returns the minutes east of UTC.
func parseZone(text []byte, assumeUTC bool) (minutes int, reason Reason) {
	switch {
	case len(text) == 0 && assumeUTC, len(text) == 1 && text[0]|0x20 == 'z':
		return 0, OK
	case len(text) == 0:
		return 0, NoZone
	case len(text) != 6 || text[0] != '+' && text[0] != '-' || text[3] != ':':
		return 0, Malformed
	}
	hours, minutes := two(text[1:]), two(text[4:])
	switch {
	case hours < 0 || minutes < 0:
		return 0, Malformed
	case hours > 23 || minutes > 59:
		return 0, OutOfRange
	}
	minutes += hours * 60
	if text[0] == '-' {
		minutes = -minutes
	}
	return minutes, OK
}

// two reads two digits, or returns -1.
func two(text []byte) int {
	if text[0]-'0' > 9 || text[1]-'0' > 9 {
		return -1
	}
	return int(text[0]-'0')*10 + int(text[1]-'0')
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

func monthLength(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// Days are counted from 1 March of the year 0, so that a leap day is the last of its year.
const (
	daysIn400 = 146097
	minDay    = 306                               // 0001-01-01
	maxDay    = 10000/400*daysIn400 - 1 - 31 - 29 // 9999-12-31, as the year 10000 is a leap year
)

// parseDate reads YYYY-MM-DD at the start of text, including the year 0, because an offset can move it into the year 1.
func parseDate(text []byte) (year, month, day int, reason Reason) {
	if len(text) == 0 {
		return 0, 0, 0, EmptyText
	}
	if len(text) < 10 || text[4] != '-' || text[7] != '-' {
		return 0, 0, 0, Malformed
	}
	century, year, month, day := two(text), two(text[2:]), two(text[5:]), two(text[8:])
	if century < 0 || year < 0 || month < 0 || day < 0 {
		return 0, 0, 0, Malformed
	}
	year += century * 100
	if month < 1 || month > 12 || day < 1 || day > monthLength(year, month) {
		return 0, 0, 0, OutOfRange
	}
	return year, month, day, OK
}

// dayNumber counts the days since 1 March of the year 0.
func dayNumber(year, month, day int) int {
	if month -= 3; month < 0 {
		month, year = month+12, year-1
	}
	// From March on, month lengths repeat with a period of 153 days in 5 months.
	return year*365 + floor(year, 4) - floor(year, 100) + floor(year, 400) + (153*month+2)/5 + day - 1
}

func floor(n, by int) int {
	if n < 0 {
		return (n - by + 1) / by
	}
	return n / by
}

// appendDate appends the date of a day between minDay and maxDay.
func appendDate(dst []byte, days int) []byte {
	era, day := days/daysIn400, days%daysIn400
	year := (day - day/1460 + day/36524 - day/(daysIn400-1)) / 365
	day -= 365*year + year/4 - year/100
	month := (5*day + 2) / 153
	day -= (153*month + 2) / 5
	year += era * 400
	if month += 3; month > 12 {
		month, year = month-12, year+1
	}
	dst = appendTwo(appendTwo(dst, year/100), year%100)
	dst = appendTwo(append(dst, '-'), month)
	return appendTwo(append(dst, '-'), day+1)
}
