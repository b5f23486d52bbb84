package celltype_test

import (
	"math"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/celltype"
	"github.com/forebay/forebay/internal/seedtest"
)

// TestEndsOfNanos checks that an int64 of nanoseconds holds every time between its ends, which are within a second.
func TestEndsOfNanos(t *testing.T) {
	for text, want := range map[string]string{
		"2262-04-11T23:47:15.999999999Z": "9223372035999999999", "2262-04-11T23:47:16Z": "9223372036000000000",
		"2262-04-11T23:47:16.854775807Z": "9223372036854775807", "2262-04-11T23:47:16.854775808Z": "", "2262-04-11T23:47:17Z": "",
		"1677-09-21T00:12:44Z": "-9223372036000000000", "1677-09-21T00:12:43.145224192Z": "-9223372036854775808",
		"1677-09-21T00:12:43.145224191Z": "", "1677-09-21T00:12:43Z": "", "1677-09-21T00:12:42.999999999Z": "",
		"1969-12-31T23:59:59.999999999Z": "-1", "1970-01-01T00:00:00Z": "0",
	} {
		got, reason := celltype.AppendUnits(nil, []byte(text), "ns")
		if string(got) != want || (reason == celltype.OK) != (want != "") {
			t.Errorf("%s is %q, %q nanoseconds, want %q", text, got, reason, want)
		}
	}
	conv := celltype.NewConverter(datatype.Int64, celltype.Rules{Epoch: "ns"}, datatype.Limits{})
	if got, ok := conv.AppendNanos(nil, math.MaxInt64); !ok || string(got) != "9223372036854775807" {
		t.Errorf("AppendNanos(2^63-1) = %s, %t", got, ok)
	}
}

// A time that is a number has the cell of its text, or is left to the text.
func TestAppendNanos(t *testing.T) {
	times := []uint64{0, 1, 999, 1000, 1e9, 951_782_400e9, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64, 9_223_372_036e9 - 1, 9_223_372_036e9}
	rng := seedtest.Rand(t)
	for range 5000 {
		times = append(times, rng.Uint64(), rng.Uint64N(1<<62), rng.Uint64N(1e6))
	}
	taken := 0
	for _, c := range []struct {
		typ    datatype.Type
		rules  celltype.Rules
		limits datatype.Limits
		none   bool // every time is left to its text
	}{
		{datatype.Timestamp, celltype.Rules{}, datatype.Limits{}, false},
		{datatype.Timestamp, celltype.Rules{Epoch: "s"}, datatype.Limits{MaxCell: 27}, false},
		{datatype.Timestamp, celltype.Rules{}, datatype.Limits{MaxCell: 26}, true},
		{datatype.Timestamp, celltype.Rules{NotBefore: "1980-01-01T00:00:00.000000Z"}, datatype.Limits{}, true},
		{datatype.Timestamp, celltype.Rules{}, datatype.Limits{MaxYear: 2000}, true},
		{datatype.Int64, celltype.Rules{Epoch: "ns"}, datatype.Limits{}, false},
		{datatype.Int64, celltype.Rules{Epoch: "us"}, datatype.Limits{}, true},
		{datatype.Int64, celltype.Rules{}, datatype.Limits{}, true},
		{datatype.Date, celltype.Rules{FromTimestamp: true}, datatype.Limits{}, true},
		{datatype.String, celltype.Rules{}, datatype.Limits{}, true},
	} {
		conv := celltype.NewConverter(c.typ, c.rules, c.limits)
		for _, nanos := range times {
			got, ok := conv.AppendNanos([]byte("x"), nanos)
			if !ok {
				if string(got) != "x" {
					t.Fatalf("%s: %d: got %s, want only x", c.typ, nanos, got)
				}
				continue
			}
			taken++
			text := time.Unix(int64(nanos/1e9), int64(nanos%1e9)).UTC().Format(time.RFC3339Nano)
			want, reason := conv.Append([]byte("x"), []byte(text), celltype.Text)
			if c.none || reason != celltype.OK || string(got) != string(want) {
				t.Fatalf("%s %+v %+v: %d is %s, its text %s is %s, %s", c.typ, c.rules, c.limits, nanos, got, text, want, reason)
			}
		}
	}
	if taken < 20_000 {
		t.Errorf("only %d times were taken as numbers", taken)
	}
}
