package trigger

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the units in ascending order; each is 1024 times the previous one.
var sizeUnits = [...]string{"B", "KB", "MB", "GB", "TB", "PB", "EB"}

// ParseSize reads a byte size as settings write it, which is an integer and a unit in upper or lower case, with an optional
// space, such as "100B", "5MB" or "12 mb". One KB is 1024 bytes. Fractions, signs, other units such as "MiB", a missing
// unit, and sizes over 8 EB - 1 B are refused.
func ParseSize(s string) (int64, error) {
	text := strings.TrimSpace(s)
	digits := 0
	for digits < len(text) && '0' <= text[digits] && text[digits] <= '9' {
		digits++
	}
	if digits == 0 {
		return 0, fmt.Errorf("size %q: want an integer and a unit, for example 5MB", s)
	}
	unit := strings.TrimSpace(text[digits:])
	for i, name := range sizeUnits {
		if !strings.EqualFold(unit, name) {
			continue
		}
		n, err := strconv.ParseInt(text[:digits], 10, 64)
		if err != nil || n > math.MaxInt64>>(10*i) {
			return 0, fmt.Errorf("size %q: above the largest size, %dB", s, int64(math.MaxInt64))
		}
		return n << (10 * i), nil
	}
	if unit == "" {
		return 0, fmt.Errorf("size %q: the unit is missing, for example %sB", s, text)
	}
	return 0, fmt.Errorf("size %q: unit %q is unknown, use an integer and one of %s", s, unit, strings.Join(sizeUnits[:], ", "))
}

// FormatSize writes a byte size with the largest unit that divides it exactly: "5MB", "1025B".
// [ParseSize] reads it back, unless it is negative.
func FormatSize(n int64) string {
	unit := 0
	for n != 0 && n%1024 == 0 && unit < len(sizeUnits)-1 {
		n /= 1024
		unit++
	}
	return strconv.FormatInt(n, 10) + sizeUnits[unit]
}
