package duration_test

import (
	"flag"
	"testing"
	"time"

	"github.com/forebay/forebay/internal/program/duration"
)

func TestParse(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "-2d": -2 * day, "0d": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute,
		"0": 0, "-1h": -time.Hour, "36500d1ns": 36500*day + 1,
	} {
		if got, err := duration.Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "30 d", "3d2d", "1h2d", "+1d", "infd", "NaNd", "1e3d", "1d-1h", "1d+1h", "110000d", "30days", "0x1d"} {
		if got, err := duration.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got)
		}
	}
}

func TestVar(t *testing.T) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	var age time.Duration
	duration.Var(flags, &age, "keep-for", time.Minute, "age")
	if f := flags.Lookup("keep-for"); age != time.Minute || f.DefValue != "1m0s" {
		t.Errorf("before parsing: %v, default %q, want 1m0s for both", age, f.DefValue)
	}
	if err := flags.Parse([]string{"-keep-for", "30d"}); err != nil || age != 720*time.Hour {
		t.Errorf("-keep-for 30d: %v, %v, want 720h0m0s", age, err)
	}
}
