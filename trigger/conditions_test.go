package trigger_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/trigger"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDue(t *testing.T) {
	c := trigger.Conditions{Interval: 30 * time.Second, Size: 1000, Count: 10}
	for _, tc := range []struct {
		name string
		load trigger.Load
		age  time.Duration
		want trigger.Reason
	}{
		{"empty", trigger.Load{}, time.Hour, trigger.None},
		{"empty with an old start and bytes", trigger.Load{Since: t0, Size: 5000}, time.Hour, trigger.None},
		{"one row", trigger.Load{Since: t0, Size: 1, Count: 1}, 0, trigger.None},
		{"all just below", trigger.Load{Since: t0, Size: 999, Count: 9}, 30*time.Second - 1, trigger.None},
		{"count reached", trigger.Load{Since: t0, Size: 999, Count: 10}, 0, trigger.ByCount},
		{"count passed", trigger.Load{Since: t0, Size: 999, Count: 11}, 0, trigger.ByCount},
		{"size reached", trigger.Load{Since: t0, Size: 1000, Count: 9}, 0, trigger.BySize},
		{"interval reached", trigger.Load{Since: t0, Size: 999, Count: 9}, 30 * time.Second, trigger.ByInterval},
		{"count before size and interval", trigger.Load{Since: t0, Size: 1000, Count: 10}, time.Hour, trigger.ByCount},
		{"size before interval", trigger.Load{Since: t0, Size: 1000, Count: 1}, time.Hour, trigger.BySize},
		{"start after now", trigger.Load{Since: t0, Size: 1, Count: 1}, -time.Hour, trigger.None},
		{"negative count", trigger.Load{Since: t0, Size: 5000, Count: -1}, time.Hour, trigger.None},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := c.Due(tc.load, t0.Add(tc.age)); got != tc.want {
				t.Errorf("Due = %s, want %s", got, tc.want)
			}
		})
	}
}

// A forgotten default must not leave rows waiting forever.
func TestDueWithoutDefaults(t *testing.T) {
	var c trigger.Conditions
	if got := c.Due(trigger.Load{Since: t0, Size: 1, Count: 1}, t0); got != trigger.ByCount {
		t.Errorf("Due = %s, want count", got)
	}
	if got := c.Due(trigger.Load{}, t0); got != trigger.None {
		t.Errorf("Due of an empty load = %s, want none", got)
	}
}

func TestDeadline(t *testing.T) {
	c := trigger.Conditions{Interval: time.Minute, Size: 1, Count: 1}
	if got, want := c.Deadline(trigger.Load{Since: t0, Count: 1}), t0.Add(time.Minute); !got.Equal(want) {
		t.Errorf("Deadline = %s, want %s", got, want)
	}
	if got := c.Deadline(trigger.Load{Since: t0}); !got.IsZero() {
		t.Errorf("Deadline of an empty load = %s, want the zero time", got)
	}
}

// Due must agree with the sentences of the specification, written down as naively as possible, and with Deadline.
func TestDueAgainstModel(t *testing.T) {
	rng := seedtest.Rand(t)
	seen := map[trigger.Reason]int{}
	for range 20_000 {
		// Small numbers, so that the edges are hit often.
		c := trigger.Conditions{Interval: time.Duration(1 + rng.IntN(5)), Size: 1 + rng.Int64N(5), Count: 1 + rng.Int64N(5)}
		l := trigger.Load{Since: t0.Add(time.Duration(rng.IntN(4))), Size: rng.Int64N(8), Count: rng.Int64N(8)}
		now := t0.Add(time.Duration(rng.IntN(10)))

		want := trigger.None
		age := now.Sub(l.Since)
		if age >= c.Interval {
			want = trigger.ByInterval
		}
		if l.Size >= c.Size {
			want = trigger.BySize
		}
		if l.Count >= c.Count {
			want = trigger.ByCount
		}
		if l.Count == 0 {
			want = trigger.None
		}
		got := c.Due(l, now)
		seen[got]++
		if got != want {
			t.Fatalf("%+v.Due(%+v, %s) = %s, want %s", c, l, now, got, want)
		}
		if l.Count == 0 {
			continue
		}
		deadline := c.Deadline(l)
		if c.Due(l, deadline) == trigger.None {
			t.Fatalf("%+v of %+v is not due at its deadline", c, l)
		}
		// Where only the interval can be met, nothing is due a moment before it.
		small := trigger.Load{Since: l.Since, Count: 1}
		large := trigger.Conditions{Interval: c.Interval, Size: 100, Count: 100}
		if got := large.Due(small, deadline.Add(-1)); got != trigger.None {
			t.Fatalf("due by %s before the deadline", got)
		}
	}
	for r := trigger.None; r <= trigger.ByInterval; r++ {
		if seen[r] == 0 {
			t.Errorf("reason %s never came up", r)
		}
	}
}

func TestResume(t *testing.T) {
	c := trigger.Conditions{Interval: time.Minute, Size: 1000, Count: 1000}
	now := time.Now()
	wall := now.Round(0)
	for _, tc := range []struct {
		name      string
		since     time.Time
		dueAfter  time.Duration
		wantSince time.Time
	}{
		{"short break", wall.Add(-10 * time.Second), 50 * time.Second, now.Add(-10 * time.Second)},
		{"long break", wall.Add(-time.Hour), 0, now.Add(-time.Hour)},
		{"wall clock set back meanwhile", wall.Add(48 * time.Hour), time.Minute, now},
		{"monotonic reading of this process", now.Add(-10 * time.Second), 50 * time.Second, now.Add(-10 * time.Second)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := trigger.Load{Since: tc.since, Size: 1, Count: 1}.Resume(now)
			if !l.Since.Equal(tc.wantSince) {
				t.Errorf("Since = %s, want %s", l.Since, tc.wantSince)
			}
			if l.Since == l.Since.Round(0) {
				t.Errorf("Since = %s has no monotonic reading", l.Since)
			}
			if got := max(0, c.Deadline(l).Sub(now)); got != tc.dueAfter {
				t.Errorf("due after %s, want %s", got, tc.dueAfter)
			}
			if l.Size != 1 || l.Count != 1 {
				t.Errorf("size and count = %d, %d, want 1, 1", l.Size, l.Count)
			}
		})
	}
}

func TestDueDoesNotAllocate(t *testing.T) {
	c := trigger.Upload().WithDefaults(trigger.Conditions{})
	l := trigger.Load{Since: t0, Size: 1, Count: 1}
	if n := testing.AllocsPerRun(100, func() { c.Due(l, t0) }); n != 0 {
		t.Errorf("Due allocates %v times", n)
	}
}

func TestReasonString(t *testing.T) {
	want := []string{"none", "count", "size", "interval", "changed", "requested", "stopped", "full", "copied", "pressure", "reason(10)"}
	for i, w := range want {
		if got := trigger.Reason(i).String(); got != w {
			t.Errorf("Reason(%d) = %q, want %q", i, got, w)
		}
	}
}

// Logs in JSON have the word and not the number.
func TestReasonIsAWordInJSON(t *testing.T) {
	var out strings.Builder
	slog.New(slog.NewJSONHandler(&out, nil)).Info("file closed", "reason", trigger.BySize)
	if !strings.Contains(out.String(), `"reason":"size"`) {
		t.Error(out.String())
	}
}

func ExampleConditions_Due() {
	c := trigger.Upload().WithDefaults(trigger.Conditions{Count: 500})
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	load := trigger.Load{Since: start, Size: 4096, Count: 20}
	fmt.Println(c.Due(load, start.Add(10*time.Second)))
	fmt.Println(c.Due(load, start.Add(30*time.Second)))
	load.Count = 500
	fmt.Println(c.Due(load, start.Add(10*time.Second)))
	// Output:
	// none
	// interval
	// count
}
