package datatype

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/forebay/forebay/driverkit/uuidtext"
)

// CellError says that a cell is not a canonical text of its type. Rows of a buffer have no such cells, unless the row was damaged,
// or read with other columns than it was written with.
type CellError struct {
	Type Type // of the column
	// Cell is the beginning of the cell, at most 64 bytes. Error leaves it out, because the column may be secret.
	Cell string
}

func (e *CellError) Error() string {
	return fmt.Sprintf("a cell of type %s has a text that is not canonical", e.Type)
}

func cellError(t Type, cell []byte) error {
	return &CellError{Type: t, Cell: string(cell[:min(len(cell), 64)])}
}

// ParseBool reads a cell of type [Bool].
//
// This and the functions below accept canonical texts only, so two texts never give one value. They allocate nothing unless they
// fail, and the error is a [*CellError]. NULL is no text, so look for it first.
func ParseBool(cell []byte) (bool, error) {
	switch string(cell) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, cellError(Bool, cell)
}

// ParseInt64 reads a cell of type [Int64].
func ParseInt64(cell []byte) (int64, error) {
	digits, negative := cutSign(cell)
	const longest = len("9223372036854775808")
	if len(digits) == 0 || len(digits) > longest || digits[0] == '0' && len(cell) > 1 {
		return 0, cellError(Int64, cell)
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	n := uint64(0) // 19 digits fit
	for _, c := range digits {
		d := c - '0'
		if d > 9 {
			return 0, cellError(Int64, cell)
		}
		n = n*10 + uint64(d)
	}
	switch {
	case n > limit:
		return 0, cellError(Int64, cell)
	case negative:
		return -int64(n), nil
	}
	return int64(n), nil
}

func cutSign(cell []byte) (rest []byte, negative bool) {
	if len(cell) > 0 && cell[0] == '-' {
		return cell[1:], true
	}
	return cell, false
}

// ParseFloat64 reads a cell of type [Float64].
func ParseFloat64(cell []byte) (float64, error) {
	if f, ok := parsePlain(cell); ok {
		return f, nil
	}
	var text [32]byte // a canonical text is shorter
	f, err := strconv.ParseFloat(string(cell[:min(len(cell), len(text))]), 64)
	if err != nil || string(AppendFloat64(text[:0], f)) != string(cell) {
		return 0, cellError(Float64, cell)
	}
	return f, nil
}

// parsePlain reads the usual number: at most 15 digits, the last one after the point not 0, at most 6 after the point. Such a text is
// the shortest of its double, and a quotient of two integers below 2^53 is the nearest double.
func parsePlain(cell []byte) (f float64, ok bool) {
	digits, negative := cutSign(cell)
	if len(digits) == 0 || len(digits) > 16 || digits[0] == '0' && len(digits) > 1 && digits[1] != '.' {
		return 0, false
	}
	mantissa, point := int64(0), len(digits)
	for i, c := range digits {
		if c == '.' && i > 0 && point == len(digits) {
			point = i
		} else if d := c - '0'; d <= 9 {
			mantissa = mantissa*10 + int64(d)
		} else {
			return 0, false
		}
	}
	power := int64(1)
	if point < len(digits) {
		frac := len(digits) - point - 1
		if frac == 0 || frac > 6 || digits[len(digits)-1] == '0' {
			return 0, false
		}
		for range frac {
			power *= 10
		}
	} else if len(digits) > 15 {
		return 0, false
	}
	if negative {
		if mantissa == 0 { // -0 is a distinct double
			return 0, false
		}
		mantissa = -mantissa
	}
	return float64(mantissa) / float64(power), true
}

// AppendFloat64 appends the canonical text of f, which is the shortest that reads back as f, with an exponent from 1e21 on and
// below 1e-6.
func AppendFloat64(dst []byte, f float64) []byte {
	switch abs := math.Abs(f); {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case abs == 0, abs >= 1e-6 && abs < 1e21, abs != abs:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 is e-9
		dst = dst[:n-1]
	}
	return dst
}

// ParseDecimal reads a cell of the type that [Decimal] returns for precision and scale. It returns the number without its point,
// value × 10^scale, as a two's complement number of 128 bits. The lower half alone is an int64 for precisions up to 18.
func ParseDecimal(cell []byte, precision, scale int) (hi int64, lo uint64, err error) {
	digits, negative := cutSign(cell)
	whole := len(digits)
	if scale > 0 {
		whole -= scale + 1
	}
	// A value below one has a zero before the point.
	if whole < 1 || digits[0] == '0' && whole > 1 || digits[0] != '0' && whole > precision-scale ||
		scale > 0 && digits[whole] != '.' {
		return 0, 0, cellError(Decimal(precision, scale), cell)
	}
	var high uint64
	for i, c := range digits {
		if i == whole {
			continue
		}
		d := c - '0'
		if d > 9 {
			return 0, 0, cellError(Decimal(precision, scale), cell)
		}
		carry, low := bits.Mul64(lo, 10)
		low, more := bits.Add64(low, uint64(d), 0)
		high, lo = high*10+carry+more, low
	}
	if negative {
		if high|lo == 0 {
			return 0, 0, cellError(Decimal(precision, scale), cell)
		}
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		high, _ = bits.Sub64(0, high, borrow)
	}
	return int64(high), lo, nil
}

// ParseTimestamp reads a cell of type [Timestamp]. It returns the microseconds since 1970-01-01T00:00:00Z.
func ParseTimestamp(cell []byte) (micros int64, err error) {
	const form = "2006-01-02T15:04:05.000000Z"
	if len(cell) != len(form) || cell[10] != 'T' || cell[13] != ':' || cell[16] != ':' || cell[19] != '.' || cell[26] != 'Z' {
		return 0, cellError(Timestamp, cell)
	}
	days, ok := parseDate(cell[:10])
	hour, minute, second := two(cell[11:]), two(cell[14:]), two(cell[17:])
	a, b, c := two(cell[20:]), two(cell[22:]), two(cell[24:])
	if !ok || hour > 23 || minute > 59 || second > 59 || max(a, b, c) > 99 {
		return 0, cellError(Timestamp, cell)
	}
	return ((int64(days)*24+int64(hour))*60+int64(minute))*60_000_000 + int64(second)*1_000_000 + int64(a*10_000+b*100+c), nil
}

// ParseDate reads a cell of type [Date]. It returns the days since 1970-01-01.
func ParseDate(cell []byte) (days int32, err error) {
	if len(cell) == len(time.DateOnly) {
		if days, ok := parseDate(cell); ok {
			return days, nil
		}
	}
	return 0, cellError(Date, cell)
}

// parseDate reads 10 bytes.
func parseDate(cell []byte) (days int32, ok bool) {
	century, year, month, day := two(cell), two(cell[2:]), two(cell[5:]), two(cell[8:])
	year += century * 100
	if year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31 || cell[4] != '-' || cell[7] != '-' {
		return 0, false
	}
	leap := year%4 == 0 && (year%100 != 0 || year%400 == 0)
	if day > 28 && (month != 2 && day > 30+(month+month/8)%2 || month == 2 && (day > 29 || !leap)) {
		return 0, false
	}
	// Years begin in March here, so that the leap day is the last: 153 days have five months from there on.
	if month -= 3; month < 0 {
		month += 12
		year--
	}
	const before1970 = 719_468 // days from 0000-03-01
	return int32(365*year + year/4 - year/100 + year/400 + (153*month+2)/5 + day - 1 - before1970), true
}

// two reads two digits. For others it returns more than any year.
func two(text []byte) int {
	a, b := text[0]-'0', text[1]-'0'
	if a > 9 || b > 9 {
		return 10_000
	}
	return int(a)*10 + int(b)
}

// ParseUUID reads a cell of type [UUID].
func ParseUUID(cell []byte) (id [16]byte, err error) {
	hi, lo, ok := uuidtext.Parse(cell)
	if !ok {
		return id, cellError(UUID, cell)
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, nil
}

var strictBase64 = base64.StdEncoding.Strict()

// AppendBytes appends the bytes of a cell of type [Bytes]. With an error it returns dst as it was.
func AppendBytes(dst, cell []byte) ([]byte, error) {
	out, err := strictBase64.AppendDecode(dst, cell)
	if err != nil || base64.StdEncoding.EncodedLen(len(out)-len(dst)) != len(cell) { // the decoder skips line ends
		return dst, cellError(Bytes, cell)
	}
	return out, nil
}
