package datetext

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A part is a form of date, time or phrase. The longest matching part counts. Its groups go to apply, which
// returns false when the part cannot stand here.
type part struct {
	pattern *regexp.Regexp
	apply   func(s *state, g []string) bool
}

const (
	yearPattern  = `([0-9]{4})`
	monthPattern = `(1[0-2]|0?[0-9])`
	dayPattern   = `([0-2]?[0-9]|3[01])`
	monthNames   = `(january|february|march|april|may|june|july|august|september|october|november|december|` +
		`jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec)\.?`
	weekdayNames = `(sunday|monday|tuesday|wednesday|thursday|friday|saturday|sun|mon|tues|tue|wednes|wed|thurs|thur|thu|fri|satur|sat)`
	unitNames    = `(seconds|second|secs|sec|minutes|minute|mins|min|hours|hour|days|day|weeks|week|fortnights|fortnight|` +
		`months|month|years|year|sunday|monday|tuesday|wednesday|thursday|friday|saturday|sun|mon|tue|wed|thu|fri|sat)`
	ordinals = `(next|last|previous|this|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth)`
	fraction = `(?:[.,][0-9]+)?`
)

// counted are the ordinals by their number.
var counted = []string{
	"this", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
	"twelfth",
}

func dated(pattern string, y, m, d int) part {
	return part{longest(`^` + pattern), func(s *state, g []string) bool {
		yr, month, day := s.base.Year(), 0, 1
		if y > 0 {
			yr = year(g[y])
		}
		if month = monthOf(g[m]); month == 0 {
			month = number(g[m])
		}
		if d > 0 {
			day = number(g[d])
		}
		return set(&s.date, [3]int{yr, month, day})
	}}
}

func word(pattern string, apply func(s *state, g []string) bool) part {
	return part{longest(`^(?:` + pattern + `)`), apply}
}

// longest compiles a pattern that prefers the longest match to the first alternative: "30" is no 3 with something after.
func longest(pattern string) *regexp.Regexp {
	re := regexp.MustCompile(pattern)
	re.Longest()
	return re
}

func clock24(pattern string) part {
	return word(pattern, func(s *state, g []string) bool {
		second := 0
		if len(g) > 3 {
			second = number(g[3])
		}
		return s.setClock(number(g[1]), number(g[2]), second)
	})
}

var parts = []part{
	dated(yearPattern+`-`+monthPattern+`-`+dayPattern, 1, 2, 3),
	dated(yearPattern+`/`+monthPattern+`/`+dayPattern, 1, 2, 3),
	dated(yearPattern+`(1[0-2]|0[0-9])([0-2][0-9]|3[01])`, 1, 2, 3),
	dated(yearPattern+`-`+monthPattern, 1, 2, 0),
	dated(monthPattern+`/`+dayPattern+`/([0-9]{4}|[0-9]{2})`, 3, 1, 2),
	dated(monthPattern+`/`+dayPattern, 0, 1, 2),
	dated(dayPattern+`[.-]`+monthPattern+`[.-]`+yearPattern, 3, 2, 1),
	dated(dayPattern+`(?:st|nd|rd|th)?[ \t.-]*`+monthNames+`[ \t.,-]*([0-9]{4})`, 3, 2, 1),
	dated(dayPattern+`-`+monthNames+`-([0-9]{2})`, 3, 2, 1),
	dated(dayPattern+`(?:st|nd|rd|th)?[ \t.-]*`+monthNames, 0, 2, 1),
	dated(monthNames+`[ \t.-]*`+dayPattern+`(?:st|nd|rd|th)?[ \t.,]+([0-9]{4})`, 3, 1, 2),
	dated(monthNames+`[ \t.-]*`+dayPattern+`(?:st|nd|rd|th)?`, 0, 1, 2),
	dated(monthNames+`[ \t.-]+([0-9]{4})`, 2, 1, 0),
	dated(yearPattern+`[ \t.-]*`+monthNames+`[ \t.-]*`+dayPattern, 1, 2, 3),
	word(monthNames, func(s *state, g []string) bool {
		return set(&s.date, [3]int{s.base.Year(), monthOf(g[1]), s.base.Day()})
	}),
	word(yearPattern+`-?w([0-5][0-9])-?([0-7])?`, func(s *state, g []string) bool {
		day := 1
		if g[3] != "" {
			day = number(g[3])
		}
		// 4 January is always in week 1.
		fourth := time.Date(number(g[1]), 1, 4, 0, 0, 0, 0, time.UTC)
		monday := 4 - (int(fourth.Weekday())+6)%7
		return set(&s.date, [3]int{number(g[1]), 1, monday + (number(g[2])-1)*7 + day - 1})
	}),
	word(`@(-?[0-9]{1,18})`+fraction, func(s *state, g []string) bool {
		stamp, err := strconv.ParseInt(g[1], 10, 64)
		return set(&s.stamp, stamp) && err == nil
	}),
	clock24(`t?([01]?[0-9]|2[0-4])[:.]([0-5][0-9])[:.]([0-5][0-9]|60)` + fraction),
	clock24(`t?([01]?[0-9]|2[0-4]):([0-5][0-9])`),
	clock24(`t([01][0-9]|2[0-4])([0-5][0-9])([0-5][0-9]|60)?`),
	word(`[0-9]{4}`, func(s *state, g []string) bool {
		// Four digits are a time, but a year when they cannot be one, or when the time is known.
		if n := number(g[0]); s.clock == nil && n/100 <= 24 && n%100 < 60 {
			return s.setClock(n/100, n%100, 0)
		}
		return set(&s.year, number(g[0]))
	}),
	word(`(0?[1-9]|1[0-2])(?::([0-5][0-9])(?::([0-5][0-9]))?)?`+fraction+`[ \t]*([ap])\.?m\.?`,
		func(s *state, g []string) bool {
			hour := number(g[1]) % 12
			if g[4] == "p" {
				hour += 12
			}
			return s.setClock(hour, number(g[2]), number(g[3]))
		}),
	word(`now`, func(*state, []string) bool { return true }),
	word(`today|midnight`, func(s *state, _ []string) bool { s.startOfDay(); return true }),
	word(`tomorrow`, func(s *state, _ []string) bool { s.startOfDay(); s.days++; return true }),
	word(`yesterday`, func(s *state, _ []string) bool { s.startOfDay(); s.days--; return true }),
	word(`noon`, func(s *state, _ []string) bool { s.clock = nil; return s.setClock(12, 0, 0) }),
	word(`first day of`, func(s *state, _ []string) bool { s.dayOf = 1; return true }),
	word(`last day of`, func(s *state, _ []string) bool { s.dayOf = 2; return true }),
	word(weekdayNames, func(s *state, g []string) bool {
		day, ok := weekdayOf(g[1])
		if s.clock == nil {
			s.midnight = true
		}
		s.setWeekday(day, onOrAfter)
		return ok
	}),
	word(ordinals+`[ \t]+`+weekdayNames+`[ \t]+of`, func(s *state, g []string) bool {
		day, ok := weekdayOf(g[2])
		n := slices.Index(counted, g[1])
		if g[1] == "last" {
			n = -1
		}
		s.startOfDay()
		s.nth, s.nthDay = n, day
		return ok && n != 0 && n < 6
	}),
	word(ordinals+`[ \t]+`+unitNames, func(s *state, g []string) bool {
		amount := int64(slices.Index(counted, g[1]))
		switch g[1] {
		case "next":
			amount = 1
		case "last", "previous":
			amount = -1
		}
		if !s.shift(amount, g[2]) {
			return false
		}
		relative := g[1] == "next" || g[1] == "last" || g[1] == "previous" || g[1] == "this"
		if relative && unitOf(g[2]) == "week" { // with a day of the week it is that day of the other week
			if !s.weekdayIs {
				s.weekday = int(s.base.Weekday())
			}
			s.weekdayIs, s.weekdayRule = true, sameWeek
		}
		return true
	}),
	word(`([+-]*)[ \t]*([0-9]{1,13})[ \t]*`+unitNames, func(s *state, g []string) bool {
		amount, err := strconv.ParseInt(g[2], 10, 64)
		if strings.Count(g[1], "-")%2 == 1 {
			amount = -amount
		}
		return err == nil && s.shift(amount, g[3])
	}),
	word(`ago`, func(s *state, _ []string) bool { s.ago(); return true }),
	word(`(?:gmt|utc)?([+-])([0-9]{1,2}):?([0-9]{2})?`, func(s *state, g []string) bool {
		offset := number(g[2])*3600 + number(g[3])*60
		if g[1] == "-" {
			offset = -offset
		}
		return s.setZone(time.FixedZone("", offset))
	}),
	word(`\(?([a-z]+(?:[/_+-][a-z0-9_+-]+)+|[a-z]{1,6})\)?`, func(s *state, g []string) bool {
		return s.setZone(zoneOf(g[1]))
	}),
}

func monthOf(name string) int {
	if len(name) < 3 || name[0] <= '9' {
		return 0
	}
	i := strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", name[:3])
	return i/3 + 1
}

func weekdayOf(name string) (int, bool) {
	if len(name) < 3 {
		return 0, false
	}
	i := strings.Index("sunmontuewedthufrisat", name[:3])
	return i / 3, i >= 0
}

// unitOf returns the singular of a unit, or the weekday as it is.
func unitOf(name string) string {
	switch name = strings.TrimSuffix(name, "s"); name {
	case "sec":
		return "second"
	case "min":
		return "minute"
	}
	return name
}

// hours of the abbreviations that dates of mail and HTTP may carry, in addition to UTC.
var abbreviations = map[string]int{
	"z": 0, "utc": 0, "gmt": 0, "wet": 0, "west": 1, "bst": 1, "cet": 1, "cest": 2, "eet": 2, "eest": 3, "msk": 3,
	"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7,
}

// zoneOf returns the zone of an abbreviation, or of a name of the time zone database in any case, or nil when there is
// none.
func zoneOf(name string) *time.Location {
	if hours, ok := abbreviations[name]; ok {
		return time.FixedZone(name, hours*3600)
	}
	if !strings.Contains(name, "/") {
		return nil
	}
	// The names of the database write each word with a capital letter.
	b := []byte(name)
	for i := range b {
		if (i == 0 || strings.IndexByte("/_-", b[i-1]) >= 0) && b[i] >= 'a' && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	for _, small := range []string{"_Of_", "_Au_", "_Es_", "-Au-", "-Of-"} {
		b = []byte(strings.ReplaceAll(string(b), small, strings.ToLower(small)))
	}
	loc, err := time.LoadLocation(string(b))
	if err != nil {
		return nil
	}
	return loc
}
