package main

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{5, 1}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 100}, 3.5},
	} {
		if got := median(slices.Clone(tt.values)); got != tt.want {
			t.Errorf("median of %v is %v, want %v", tt.values, got, tt.want)
		}
	}
}

// Rounds in which the whole machine was ten times slower must not change a ratio.
func TestRatiosAreTakenWithinRounds(t *testing.T) {
	fake := func(rows, rowBytes int64, latency time.Duration) *sample {
		s := &sample{
			Rows: rows, Bytes: rows * rowBytes, Total: rows + 1, Elapsed: time.Second,
			CPU: time.Duration(rows) * time.Microsecond, Allocs: uint64(2 * rows), Written: 3 * rows * rowBytes,
		}
		s.Latency.add(latency)
		return s
	}
	samples := make(map[string][]*sample)
	for _, slow := range []int64{1, 10, 1, 10, 10} {
		d := time.Duration(slow)
		samples["own"] = append(samples["own"], fake(6000/slow, 100, d*time.Millisecond))
		samples["limit"] = append(samples["limit"], fake(1000/slow, 1000, d*time.Millisecond))
		samples["raw"] = append(samples["raw"], fake(12000/slow, 100, d*time.Millisecond))
		samples[fsyncName] = append(samples[fsyncName], fake(1000/slow, 4096, d*500*time.Microsecond))
	}
	s := scenario{name: "own", limit: "limit", against: []baseline{{"rawfile", "raw"}}, fsync: true}
	r := summarize(s, samples)

	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.04*want {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("rows_per_s", r.RowsPerS, 600)
	near("bytes_per_s", r.BytesPerS, 60_000)
	near("of_limit", *r.OfLimit, 0.6)
	near("limit", *r.Limit, 1000)
	near("of_rawfile", r.Baselines[0].ratio, 0.5)
	near("rawfile_rows_per_s", r.Baselines[0].rows, 1200)
	near("p50_of_fsync", *r.P50OfFsync, 2)
	near("p50_ms", r.P50, 10)
	near("cpu_ns_per_row", *r.CPUPerRow, 1000)
	near("allocs_per_row", r.AllocsPerRow, 2)
	near("written_per_byte", *r.WrittenPerByte, 3)
	near("spread", r.Spread, 9)
	if r.Rounds != 5 || r.Rows != 2*6001+3*601 {
		t.Errorf("got %d rounds with %d rows, want 5 with %d", r.Rounds, r.Rows, 2*6001+3*601)
	}
}

func TestChooseTakesWhatIsComparedWith(t *testing.T) {
	all := []scenario{
		{name: fsyncName, group: "disk"},
		{name: "limit/seqwrite/4K", group: "disk"},
		{name: "baseline/a", group: "1KB"},
		{name: "baseline/b", group: "1KB"},
		{name: "ingest/x", group: "1KB", limit: "limit/seqwrite/4K", against: []baseline{{"a", "baseline/a"}}, fsync: true},
		{name: "ingest/y", group: "1KB", against: []baseline{{"a", "baseline/a"}}},
	}
	plans, err := choose(all, regexp.MustCompile("ingest"))
	if err != nil {
		t.Fatal(err)
	}
	if len(plans) != 1 {
		t.Fatalf("got %d plans, want one for the group", len(plans))
	}
	var measured []string
	for _, s := range plans[0].measured {
		measured = append(measured, s.name)
	}
	want := []string{fsyncName, "limit/seqwrite/4K", "baseline/a", "ingest/x", "ingest/y"}
	if !slices.Equal(measured, want) {
		t.Errorf("measured are %q, want %q", measured, want)
	}
	if n := len(plans[0].selected); n != 2 {
		t.Errorf("%d scenarios are reported, want the 2 that match", n)
	}

	all[4].limit = "limit/none"
	if _, err := choose(all, regexp.MustCompile("ingest")); err == nil || !strings.Contains(err.Error(), "limit/none") {
		t.Errorf("an unknown limit gives %v, want an error that names it", err)
	}
}

func TestScenariosAreConsistent(t *testing.T) {
	all := scenarios()
	seen := make(map[string]bool)
	for _, s := range all {
		if seen[s.name] {
			t.Errorf("scenario %q is defined twice", s.name)
		}
		seen[s.name] = !s.unlisted
		if s.run == nil || s.group == "" {
			t.Errorf("scenario %q has no group or nothing to run", s.name)
		}
	}
	if _, err := choose(all, regexp.MustCompile("")); err != nil {
		t.Error(err)
	}
}

func TestRoundsAlternateTheirOrder(t *testing.T) {
	var order []string
	item := func(name string) scenario {
		return scenario{name: name, run: func(context.Context, *env) (*sample, error) {
			order = append(order, name)
			return &sample{Rows: 1, Elapsed: 1}, nil
		}}
	}
	p := plan{measured: []scenario{item("a"), item("b")}}
	samples, err := measurePlan(t.Context(), &env{}, p, 3, func(string, int) {})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "b", "a", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("order is %q, want %q", order, want)
	}
	if len(samples["a"]) != 3 || len(samples["b"]) != 3 {
		t.Errorf("got %d and %d samples, want 3 of each", len(samples["a"]), len(samples["b"]))
	}
}

func TestErrorNamesTheScenario(t *testing.T) {
	cause := errors.New("row 7 is missing")
	p := plan{measured: []scenario{{name: "ingest/x", run: func(context.Context, *env) (*sample, error) {
		return nil, cause
	}}}}
	_, err := measurePlan(t.Context(), &env{}, p, 1, func(string, int) {})
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "ingest/x") {
		t.Errorf("error is %v, want one that names ingest/x and wraps the cause", err)
	}
}
