// Package datetext writes and reads dates as the functions date and strtotime of the service do. Everything is in UTC
// unless a text says otherwise.
package datetext

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Format writes t in UTC by a format in which each letter stands for a part of the date. A backslash takes the next
// character as it is. Other characters are copied.
func Format(t time.Time, format string) string {
	t = t.UTC()
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c == '\\' {
			if i++; i < len(format) {
				b.WriteByte(format[i])
			}
			continue
		}
		if layout, ok := layouts[c]; ok {
			b.WriteString(t.Format(layout))
			continue
		}
		if computed, ok := computedLetters[c]; ok {
			b.WriteString(computed(t))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// layouts are the letters that the standard library can write.
var layouts = map[byte]string{
	'd': "02", 'j': "2", 'D': "Mon", 'l': "Monday",
	'm': "01", 'n': "1", 'M': "Jan", 'F': "January",
	'y': "06", 'a': "pm", 'A': "PM", 'g': "3", 'h': "03", 'H': "15", 'i': "04", 's': "05",
	'u': "000000", 'v': "000", 'e': "UTC", 'T': "UTC", 'P': "-07:00", 'O': "-0700",
	'c': "2006-01-02T15:04:05-07:00", 'r': "Mon, 02 Jan 2006 15:04:05 -0700",
}

var computedLetters = map[byte]func(time.Time) string{
	'N': func(t time.Time) string { return strconv.Itoa((int(t.Weekday())+6)%7 + 1) },
	'w': func(t time.Time) string { return strconv.Itoa(int(t.Weekday())) },
	'z': func(t time.Time) string { return strconv.Itoa(t.YearDay() - 1) },
	'S': func(t time.Time) string { return ordinal(t.Day()) },
	'W': func(t time.Time) string { _, w := t.ISOWeek(); return fmt.Sprintf("%02d", w) },
	'o': func(t time.Time) string { y, _ := t.ISOWeek(); return strconv.Itoa(y) },
	't': func(t time.Time) string {
		return strconv.Itoa(time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day())
	},
	'Y': func(t time.Time) string { return fmt.Sprintf("%04d", t.Year()) },
	'L': func(t time.Time) string {
		return strconv.Itoa(time.Date(t.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay() - 365)
	},
	'G': func(t time.Time) string { return strconv.Itoa(t.Hour()) },
	'B': func(t time.Time) string {
		// A day has 1000 beats and begins at midnight of UTC+1.
		second := t.Hour()*3600 + t.Minute()*60 + t.Second() + 3600
		return fmt.Sprintf("%03d", second*10/864%1000)
	},
	'I': func(time.Time) string { return "0" },
	'Z': func(time.Time) string { return "0" },
	'U': func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) },
}

func ordinal(day int) string {
	if last := day % 10; day/10 != 1 && last >= 1 && last <= 3 {
		return []string{"st", "nd", "rd"}[last-1]
	}
	return "th"
}
