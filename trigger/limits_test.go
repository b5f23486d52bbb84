package trigger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/fuzztest"
	"github.com/forebay/forebay/trigger"
)

// The numbers are written out, not computed, because they are facts of the seed.
func TestLimitsOfTheSeed(t *testing.T) {
	for _, tc := range []struct {
		got  trigger.Limits
		want trigger.Limits
	}{
		{trigger.Upload(), trigger.Limits{
			Name:    "upload",
			Min:     trigger.Conditions{Interval: time.Second, Size: 100, Count: 1},
			Max:     trigger.Conditions{Interval: 30 * time.Minute, Size: 52428800, Count: 10000000},
			Default: trigger.Conditions{Interval: 30 * time.Second, Size: 5242880, Count: 10000},
		}},
		{trigger.Import(), trigger.Limits{
			Name:    "import",
			Min:     trigger.Conditions{Interval: 30 * time.Second, Size: 100, Count: 1},
			Max:     trigger.Conditions{Interval: 24 * time.Hour, Size: 524288000, Count: 10000000},
			Default: trigger.Conditions{Interval: time.Minute, Size: 52428800, Count: 50000},
		}},
	} {
		if tc.got != tc.want {
			t.Errorf("got %+v\nwant %+v", tc.got, tc.want)
		}
		for _, c := range []trigger.Conditions{{}, tc.want.Min, tc.want.Max, tc.want.Default} {
			if err := tc.got.Validate(c); err != nil {
				t.Errorf("%s: Validate(%+v) = %v, want nil", tc.want.Name, c, err)
			}
		}
	}
}

func TestWithDefaults(t *testing.T) {
	l := trigger.Upload()
	if got := l.WithDefaults(trigger.Conditions{}); got != l.Default {
		t.Errorf("got %+v, want the defaults", got)
	}
	c := trigger.Conditions{Interval: 2 * time.Second, Size: 200, Count: 2}
	if got := l.WithDefaults(c); got != c {
		t.Errorf("got %+v, want %+v", got, c)
	}
	if got, want := l.WithDefaults(trigger.Conditions{Size: 200}), (trigger.Conditions{Interval: 30 * time.Second, Size: 200, Count: 10000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestValidate(t *testing.T) {
	const up, im = "storage.level.staging.upload.trigger.", "storage.level.target.import.trigger."
	for _, tc := range []struct {
		name   string
		limits trigger.Limits
		c      trigger.Conditions
		want   []string
	}{
		{"upload interval below", trigger.Upload(), trigger.Conditions{Interval: time.Second - 1}, []string{
			up + "interval: 999.999999ms is below the minimum 1s, use 1s to 30m0s",
		}},
		{"import interval below", trigger.Import(), trigger.Conditions{Interval: 29 * time.Second}, []string{
			im + "interval: 29s is below the minimum 30s, use 30s to 24h0m0s",
		}},
		{"interval above", trigger.Upload(), trigger.Conditions{Interval: time.Hour}, []string{
			up + "interval: 1h0m0s is above the maximum 30m0s, use 1s to 30m0s",
		}},
		{"all at once", trigger.Import(), trigger.Conditions{Interval: 25 * time.Hour, Size: 99, Count: 10_000_001}, []string{
			im + "interval: 25h0m0s is above the maximum 24h0m0s, use 30s to 24h0m0s",
			im + "size: 99B is below the minimum 100B, use 100B to 500MB",
			im + "count: 10000001 is above the maximum 10000000, use 1 to 10000000",
		}},
		{"negative", trigger.Upload(), trigger.Conditions{Interval: -1, Size: -1, Count: -1}, []string{
			up + "interval: -1ns is below the minimum 1s, use 1s to 30m0s",
			up + "size: -1B is below the minimum 100B, use 100B to 50MB",
			up + "count: -1 is below the minimum 1, use 1 to 10000000",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.limits.Validate(tc.c)
			if err == nil {
				t.Fatal("Validate = nil")
			}
			if got, want := err.Error(), strings.Join(tc.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			var limit *trigger.LimitError
			if !errors.As(err, &limit) || !strings.HasPrefix(tc.want[0], limit.Key+": "+limit.Value+" ") {
				t.Errorf("the first *LimitError is %+v", limit)
			}
		})
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0B": 0, "100B": 100, "256KB": 262144, "5MB": 5242880, "12 mb": 12582912, "1gb": 1 << 30, "3Tb": 3 << 40,
		"2PB": 2 << 50, "7EB": 7 << 60, " 5 MB ": 5242880, "007kB": 7168, "9223372036854775807B": 1<<63 - 1,
	} {
		if got, err := trigger.ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for in, text := range map[string]string{
		"": "want an integer", "MB": "want an integer", "-1B": "want an integer", "+1B": "want an integer",
		"1.5MB": `unit ".5MB" is unknown`, "5MiB": `unit "MiB" is unknown`, "5": "unit is missing, for example 5B",
		"5 M": `unit "M" is unknown`, "5MB5": "is unknown", "8EB": "above the largest", "9223372036854775808B": "above the largest",
		"99999999999999999999KB": "above the largest", "９B": "want an integer", "1 000B": "is unknown",
	} {
		got, err := trigger.ParseSize(in)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("ParseSize(%q) = %d, %v, want an error with %q", in, got, err, text)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for in, want := range map[int64]string{
		0: "0B", 1: "1B", 100: "100B", 1023: "1023B", 1024: "1KB", 1025: "1025B", 262144: "256KB", 5242880: "5MB",
		5242880 + 1024: "5121KB", 1 << 30: "1GB", 1 << 62: "4EB", 1<<63 - 1: "9223372036854775807B", -2048: "-2KB",
	} {
		if got := trigger.FormatSize(in); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", in, got, want)
		}
	}
}

// Whatever ParseSize accepts is not negative, and is the same size after FormatSize.
func FuzzParseSize(tf *testing.F) {
	f := fuzztest.New(tf)
	for _, s := range []string{"100B", "5MB", "12 mb", "8EB", "1.5MB", "-1KB", "5 MiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := trigger.ParseSize(s)
		if err != nil {
			return
		}
		if n < 0 {
			t.Fatalf("ParseSize(%q) = %d", s, n)
		}
		text := trigger.FormatSize(n)
		if again, err := trigger.ParseSize(text); err != nil || again != n {
			t.Fatalf("ParseSize(%q) = %d, %v, want %d as for %q", text, again, err, n, s)
		}
	})
}

func ExampleLimits_Validate() {
	err := trigger.Upload().Validate(trigger.Conditions{Interval: time.Hour, Count: -5})
	fmt.Println(err)
	// Output:
	// storage.level.staging.upload.trigger.interval: 1h0m0s is above the maximum 30m0s, use 1s to 30m0s
	// storage.level.staging.upload.trigger.count: -5 is below the minimum 1, use 1 to 10000000
}
