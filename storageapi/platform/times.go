package platform

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/storageapi"
)

// parseTime reads a time of a request, as seconds since 1970, or one of the usual forms.
func parseTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Unix(seconds, 0), nil
	}
	for _, layout := range []string{storageapi.TimeFormat, time.RFC3339, "2006-01-02 15:04:05", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time", cut(text, 40))
}

// parseMoment reads a time that selects rows, which may also be a distance from now such as "-2 days", "2 weeks ago",
// "-1 day -2 hours", "now", "today", "yesterday" and "tomorrow". Days begin at midnight UTC, and a day, a month or a year is one of
// the calendar.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if at, ok := relativeTime(strings.ToLower(strings.TrimSpace(text)), now.UTC()); ok && at.Year() >= 1 && at.Year() <= 9999 {
		return at, nil
	}
	return parseTime(text)
}

// distance is one step of a relative time.
var distance = regexp.MustCompile(`^([+-]?\d{1,6})\s*(second|sec|minute|min|hour|day|week|fortnight|month|year)s?(\s+ago)?\s*`)

func relativeTime(text string, now time.Time) (at time.Time, ok bool) {
	midnight := now.Truncate(24 * time.Hour)
	at = now
	for word, day := range map[string]time.Time{
		"now": now, "today": midnight, "midnight": midnight, "yesterday": midnight.AddDate(0, 0, -1), "tomorrow": midnight.AddDate(0, 0, 1),
	} {
		if rest, found := strings.CutPrefix(text, word); found && (rest == "" || strings.ContainsAny(rest[:1], " +-")) {
			at, text, ok = day, strings.TrimSpace(rest), true
			break
		}
	}
	for text != "" {
		m := distance.FindStringSubmatch(text)
		if m == nil {
			return at, false
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return at, false
		}
		if m[3] != "" {
			n = -n
		}
		switch m[2] {
		case "sec", "second":
			at = at.Add(time.Duration(n) * time.Second)
		case "min", "minute":
			at = at.Add(time.Duration(n) * time.Minute)
		case "hour":
			at = at.Add(time.Duration(n) * time.Hour)
		case "day":
			at = at.AddDate(0, 0, n)
		case "week":
			at = at.AddDate(0, 0, 7*n)
		case "fortnight":
			at = at.AddDate(0, 0, 14*n)
		case "month":
			at = at.AddDate(0, n, 0)
		case "year":
			at = at.AddDate(n, 0, 0)
		}
		text, ok = text[len(m[0]):], true
	}
	return at, ok
}
