package celltype_test

import (
	"math"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/celltype"
	"github.com/forebay/forebay/internal/seedtest"
)

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
					t.Fatalf("%s: %d appends %s", c.typ, nanos, got)
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
