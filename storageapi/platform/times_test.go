package platform

import (
	"testing"
	"time"
)

// The time that selects rows may be relative to now. What is nearly a time is refused.
func TestParseMoment(t *testing.T) {
	now := time.Date(2026, 3, 31, 10, 20, 30, 0, time.FixedZone("", 3600)) // 09:20:30 UTC
	for text, want := range map[string]string{
		"0": "1970-01-01T00:00:00Z", "1700000000": "2023-11-14T22:13:20Z", "2024-02-29": "2024-02-29T00:00:00Z", "2024-02-29 01:02:03": "2024-02-29T01:02:03Z",
		"2024-02-29T01:02:03+0100": "2024-02-29T00:02:03Z", "2024-02-29T01:02:03+01:00": "2024-02-29T00:02:03Z",
		"-2 days": "2026-03-29T09:20:30Z", "-2days": "2026-03-29T09:20:30Z", "2 days ago": "2026-03-29T09:20:30Z", "-1 Day -2 hours": "2026-03-30T07:20:30Z", " -1 week ": "2026-03-24T09:20:30Z",
		"-10 minutes": "2026-03-31T09:10:30Z", "-30 sec": "2026-03-31T09:20:00Z", "+1 hour": "2026-03-31T10:20:30Z", "-1 year": "2025-03-31T09:20:30Z", "-1 fortnight": "2026-03-17T09:20:30Z",
		"now": "2026-03-31T09:20:30Z", "today": "2026-03-31T00:00:00Z", "yesterday": "2026-03-30T00:00:00Z", "tomorrow": "2026-04-01T00:00:00Z", "yesterday -1 hour": "2026-03-29T23:00:00Z",
		"": "", "days": "", "-2": "1969-12-31T23:59:58Z", "-2 dayz": "", "2 days since": "", "nowhere": "", "-99999 years": "", "-9999999 days": "", "2024-02-30": "", "- 2 days": "",
	} {
		at, err := parseMoment(text, now)
		got := ""
		if err == nil {
			got = at.UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%q is %q (%v), want %q", text, got, err, want)
		}
	}
}
