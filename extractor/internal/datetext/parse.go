package datetext

import (
	"strconv"
	"strings"
	"time"
)

// Parse reads a date, a time, a phrase that shifts the base ("+1 week 2 days", "last monday"), or several of them
// together. A date without time is midnight, a time without date is on the day of the base. ok is false when a part of
// the text is not understood, or two parts contradict each other.
func Parse(text string, base time.Time) (t time.Time, ok bool) {
	base = base.UTC().Truncate(time.Second)
	s := state{base: base}
	rest := strings.ToLower(text)
	if strings.Trim(rest, blanks) == "" || len(text) > maxText {
		return time.Time{}, false
	}
	for {
		rest = strings.TrimLeft(rest, blanks)
		if rest == "" {
			return s.resolve()
		}
		n := s.take(rest)
		if n == 0 {
			return time.Time{}, false
		}
		rest = rest[n:]
	}
}

// maxText bounds the work on a text that an API may send. No date is nearly as long.
const maxText = 256

const blanks = " \t\n,"

// A state gathers the values from the parts of a text.
type state struct {
	base          time.Time
	date          *[3]int // year, month, day
	clock         *[3]int // hour, minute, second
	zone          *time.Location
	stamp         *int64
	midnight      bool // a part said that the time of the base does not count
	years, months int
	days, seconds int64
	weekday       int
	weekdayIs     bool
	weekdayRule   int
	dayOf         int // 1 means the first day of the month, 2 the last
	year          *int
	// nth is the number of a weekday in its month, -1 for the last, 0 for none.
	nth, nthDay int
}

// Rules of a weekday: strictly after the day, on it or after it, within its week from Monday.
const (
	after = iota
	onOrAfter
	sameWeek
)

// take reads the part that matches the longest start of the text and returns its length, or 0.
func (s *state) take(text string) int {
	best, most := -1, 0
	var groups []string
	for i := range parts {
		m := parts[i].pattern.FindStringSubmatch(text)
		if m == nil || len(m[0]) <= most || cutsWord(text, len(m[0])) {
			continue
		}
		best, most, groups = i, len(m[0]), m
	}
	if best < 0 || !parts[best].apply(s, groups) {
		return 0
	}
	return most
}

// cutsWord reports whether a part of n bytes would end within a word or a number.
func cutsWord(text string, n int) bool {
	if n >= len(text) {
		return false
	}
	a, b := text[n-1], text[n]
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' }
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	return letter(a) && letter(b) || digit(a) && digit(b)
}

// set stores the value of a part. It reports false when another part has set it before.
func set[T any](at **T, value T) bool {
	free := *at == nil
	*at = &value
	return free
}

func (s *state) setZone(loc *time.Location) bool {
	free := s.zone == nil
	s.zone = loc
	return free && loc != nil
}

func (s *state) setClock(hour, minute, second int) bool {
	return hour <= 24 && minute <= 59 && second <= 60 && set(&s.clock, [3]int{hour, minute, second})
}

func (s *state) setWeekday(day, rule int) {
	if s.weekdayIs && s.weekdayRule == sameWeek {
		rule = sameWeek
	}
	s.weekday, s.weekdayRule, s.weekdayIs = day, rule, true
}

// startOfDay drops the time of the base, and a time that was read before.
func (s *state) startOfDay() {
	s.clock, s.midnight = nil, true
}

var (
	secondsOf = map[string]int64{"second": 1, "minute": 60, "hour": 3600}
	daysOf    = map[string]int64{"day": 1, "week": 7, "fortnight": 14}
)

// shift adds amount units. It returns false for an unknown unit.
func (s *state) shift(amount int64, unit string) bool {
	unit = unitOf(unit)
	s.seconds += amount * secondsOf[unit]
	s.days += amount * daysOf[unit]
	switch {
	case secondsOf[unit]+daysOf[unit] > 0:
		return true
	case unit == "month":
		s.months += int(amount)
		return true
	case unit == "year":
		s.years += int(amount)
		return true
	}
	day, known := weekdayOf(unit)
	if !known {
		return false
	}
	if amount > 0 { // the first one after, and further weeks
		amount--
	}
	s.days += amount * 7
	if s.clock == nil {
		s.midnight = true
	}
	s.setWeekday(day, after)
	return true
}

// ago turns around everything that was shifted so far.
func (s *state) ago() {
	s.years, s.months, s.days, s.seconds = -s.years, -s.months, -s.days, -s.seconds
}

func (s *state) resolve() (time.Time, bool) {
	loc := time.UTC
	if s.zone != nil {
		loc = s.zone
	}
	if s.stamp != nil {
		if s.date != nil || s.clock != nil {
			return time.Time{}, false
		}
		s.base = time.Unix(*s.stamp, 0).UTC()
	}
	year, month, day := s.base.Date()
	m := int(month)
	hour, minute, second := s.base.Clock()
	if s.date != nil {
		year, m, day = s.date[0], s.date[1], s.date[2]
	}
	if s.year != nil {
		year = *s.year
	}
	switch {
	case s.clock != nil:
		hour, minute, second = s.clock[0], s.clock[1], s.clock[2]
	case s.date != nil || s.midnight:
		hour, minute, second = 0, 0, 0
	}
	if s.weekdayIs {
		at := time.Date(year, time.Month(m), day, 0, 0, 0, 0, time.UTC)
		at = at.AddDate(0, 0, s.toWeekday(int(at.Weekday())))
		year, m, day = at.Year(), int(at.Month()), at.Day()
	}
	if !s.bounded() {
		return time.Time{}, false
	}
	year += s.years
	m += s.months
	day += int(s.days)
	switch s.dayOf {
	case 1:
		day = 1
	case 2:
		day, m = 0, m+1
	}
	if s.nth != 0 {
		day = nthWeekday(year, m, s.nth, s.nthDay)
	}
	t := time.Date(year, time.Month(m), day, hour, minute, second, 0, loc)
	return t.Add(time.Duration(s.seconds) * time.Second).UTC(), true
}

// bounded reports whether the shift can be computed. Shifts beyond a million years are refused.
func (s *state) bounded() bool {
	const most = 4_000_000
	in := func(i, bound int64) bool { return i <= bound && i >= -bound }
	return in(int64(s.years), most/400) && in(int64(s.months), most) && in(s.days, most) && in(s.seconds, most*1000)
}

// toWeekday returns the days from a day of the week to the wanted day.
func (s *state) toWeekday(today int) int {
	want := s.weekday
	if s.weekdayRule == sameWeek {
		return (want+6)%7 - (today+6)%7
	}
	difference := want - today
	if s.days < 0 && difference < 0 || s.days >= 0 && difference <= -s.weekdayRule {
		difference += 7
	}
	return difference
}

// nthWeekday returns the day of a month on which a weekday is for the nth time; -1 is the last time.
func nthWeekday(year, month, n, weekday int) int {
	if n < 0 {
		last := time.Date(year, time.Month(month+1), 0, 0, 0, 0, 0, time.UTC)
		return last.Day() - (int(last.Weekday())-weekday+7)%7
	}
	first := time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
	return 1 + (weekday-int(first.Weekday())+7)%7 + (n-1)*7
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// year reads two digits as 1970 to 2069.
func year(s string) int {
	n := number(s)
	if len(s) <= 2 {
		if n < 70 {
			n += 100
		}
		n += 1900
	}
	return n
}
