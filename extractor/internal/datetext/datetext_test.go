package datetext

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/fuzztest"
)

func TestFormat(t *testing.T) {
	at := time.Unix(1492674974, 0)
	for format, want := range map[string]string{
		"d j D l": "20 20 Thu Thursday", "N w z S": "4 4 109 th", "W o": "16 2017", "m n M F t": "04 4 Apr April 30",
		"Y y L": "2017 17 0", "a A g G h H i s": "am AM 7 7 07 07 56 14", "u v B": "000000 000 372",
		"e T P O I Z": "UTC UTC +00:00 +0000 0 0", "c": "2017-04-20T07:56:14+00:00",
		"r U": "Thu, 20 Apr 2017 07:56:14 +0000 1492674974", `\Y\\-Y.x`: `Y\-2017.x`, "": "",
	} {
		if got := Format(at, format); got != want {
			t.Errorf("Format(%q) = %q, want %q", format, got, want)
		}
	}
	for day, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 22: "22nd", 23: "23rd", 30: "30th"} {
		if got := Format(time.Date(2024, 1, day, 0, 0, 0, 0, time.UTC), "jS"); got != want {
			t.Errorf("day %d is %q", day, got)
		}
	}
	if got := Format(time.Date(2024, 2, 29, 23, 59, 59, 0, time.UTC), "L t a g G B"); got != "1 29 pm 11 23 041" {
		t.Error(got)
	}
}

func TestParse(t *testing.T) {
	base := time.Unix(1508620560, 0) // 2017-10-21 21:16:00, a Saturday
	for text, want := range map[string]string{
		"2017-10-04": "2017-10-04 00:00:00", "2017/10/04": "2017-10-04 00:00:00", "20171004": "2017-10-04 00:00:00",
		"10/04/2017": "2017-10-04 00:00:00", "04.10.2017": "2017-10-04 00:00:00", "Oct 4 2017": "2017-10-04 00:00:00",
		"2017-10": "2017-10-01 00:00:00", "2017-02-20 12:34:45": "2017-02-20 12:34:45",
		"2017-02-20T12:34:45Z": "2017-02-20 12:34:45", "2017-02-20T12:34:45+02:00": "2017-02-20 10:34:45",
		"2017-02-20T12:34:45-0230": "2017-02-20 15:04:45", "2017-02-20 12:34:45 +0200": "2017-02-20 10:34:45",
		"2017-10-04 12:34:45.123": "2017-10-04 12:34:45", "2017-10-04T12:34:45.123456Z": "2017-10-04 12:34:45",
		"20171004T123456": "2017-10-04 12:34:56", "Wed, 04 Oct 2017 10:00:00 GMT": "2017-10-04 10:00:00",
		"21 oct 2017 9:16pm": "2017-10-21 21:16:00", "Jan 5, 2024 3:04:05 PM": "2024-01-05 15:04:05",
		"5 January 2024": "2024-01-05 00:00:00", "2024-1-5": "2024-01-05 00:00:00", "5-Jan-2024": "2024-01-05 00:00:00",
		"2010-03-13 11:30:00 America/New_York": "2010-03-13 16:30:00", "2010-07-13 11:30 EDT": "2010-07-13 15:30:00",
		"@1492674974": "2017-04-20 07:56:14", "@0 +1 day": "1970-01-02 00:00:00", "@-1": "1969-12-31 23:59:59",
		"12:34": "2017-10-21 12:34:00", "11:30 pm": "2017-10-21 23:30:00", "12 am": "2017-10-21 00:00:00",
		"now": "2017-10-21 21:16:00", "-0 second": "2017-10-21 21:16:00", "today": "2017-10-21 00:00:00",
		"midnight": "2017-10-21 00:00:00", "tomorrow": "2017-10-22 00:00:00", "yesterday noon": "2017-10-20 12:00:00",
		"tomorrow 10:30": "2017-10-22 10:30:00", "noon": "2017-10-21 12:00:00",
		"-7 days": "2017-10-14 21:16:00", "3 days ago": "2017-10-18 21:16:00", "1 hour": "2017-10-21 22:16:00",
		"+1 week 2 days": "2017-10-30 21:16:00", "next month": "2017-11-21 21:16:00", "last year": "2016-10-21 21:16:00",
		"first day of last month": "2017-09-01 21:16:00", "last day of february 2024": "2024-02-29 00:00:00",
		"first day of january 2024 midnight": "2024-01-01 00:00:00",
		"last monday":                        "2017-10-16 00:00:00", "monday next week": "2017-10-23 00:00:00",
		"next monday": "2017-10-23 00:00:00", "monday": "2017-10-23 00:00:00", "saturday": "2017-10-21 00:00:00",
		"next saturday": "2017-10-28 00:00:00", "next week": "2017-10-28 21:16:00", "sunday this week": "2017-10-22 00:00:00",
		"2024-01-31 +1 month": "2024-03-02 00:00:00", "2017-02-30": "2017-03-02 00:00:00", "2017W101": "2017-03-06 00:00:00",
		"2017-W10-7": "2017-03-12 00:00:00", "2017-10-04 +1 day -2 hours": "2017-10-04 22:00:00",
		"-1 MONTH": "2017-09-21 21:16:00", "+90 minutes": "2017-10-21 22:46:00", "2 fortnights": "2017-11-18 21:16:00",
		"Sunday, 06-Nov-94 08:49:37 GMT": "1994-11-06 08:49:37", "Sun Nov  6 08:49:37 1994": "1994-11-06 08:49:37",
		"Sat Oct 21 08:49:37 2017": "2017-10-21 08:49:37", "Oct 21 2017 0849": "2017-10-21 08:49:00", "1830": "2017-10-21 18:30:00",
		"first monday of january 2024": "2024-01-01 00:00:00", "third friday of next month": "2017-11-17 00:00:00",
		"last sunday of february 2024 10:00": "2024-02-25 10:00:00",
		"5 Jan":                              "2017-01-05 00:00:00", "2024-01-01 12:00 UTC+2": "2024-01-01 10:00:00",
	} {
		got, ok := Parse(text, base)
		if s := got.Format(time.DateTime); !ok || s != want {
			t.Errorf("Parse(%q) = %s, %v, want %s", text, s, ok, want)
		}
	}
	for _, text := range []string{
		"1492674974", "0", "", " ", "garbage", "2017-20-12 12:20:17", "2017-01-01 2017-01-02", "12:00 13:00", "12:61",
		"Mars/Phobos", "+1 parsec", "9999999999999 years", "monday parade", strings.Repeat("now ", 65), "@1 @2", "2017-10-04 12:00 Z Z",
	} {
		if got, ok := Parse(text, base); ok {
			t.Errorf("Parse(%q) = %s, want not understood", text, got)
		}
	}
}

func FuzzParse(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{"2017-02-20T12:34:45+02:00", "last day of february 2024", "+1 week 2 days ago", "@1", "2017W101 noon"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := Parse(text, time.Unix(1508620560, 0)); ok {
			if at.Nanosecond() != 0 || at.Location() != time.UTC {
				t.Errorf("Parse(%q) = %v", text, at)
			}
		}
	})
}
