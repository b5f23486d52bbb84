package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestJSONShape(t *testing.T) {
	r := result{
		Scenario: "ingest/sync/1KB", RowsPerS: 1000.5, Limit: some(2000), OfLimit: some(0.5),
		Baselines: []comparison{{field: "rawfile", rows: 4000, ratio: 0.25, p50: 0.5, p50Ratio: 1.5}, {field: "pebble_set", rows: 500, ratio: 2}},
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatalf("%s: got %v, want no error", line, err)
	}
	for field, want := range map[string]any{
		"scenario": "ingest/sync/1KB", "rows_per_s": 1000.5, "bytes_per_s": 0.0, "p50_ms": 0.0, "p99_ms": 0.0,
		"cpu_ns_per_row": nil, "allocs_per_row": 0.0, "limit": 2000.0, "of_limit": 0.5,
		"rawfile_rows_per_s": 4000.0, "of_rawfile": 0.25, "rawfile_p50_ms": 0.5, "p50_of_rawfile": 1.5, "pebble_set_rows_per_s": 500.0, "of_pebble_set": 2.0,
	} {
		if value, ok := got[field]; !ok || value != want {
			t.Errorf("%s is %v (present: %v), want %v", field, value, ok, want)
		}
	}
	if strings.Contains(string(line), "\n") {
		t.Error("the object takes more than one line")
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	err := writeTable(&out, []result{
		{Scenario: "a", RowsPerS: 12, Spread: 0.1},
		{Scenario: "longer", RowsPerS: 123456, CPUPerRow: some(7), OfLimit: some(0.5), Baselines: []comparison{{field: "rawfile", ratio: 2}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "" +
		"scenario  rows/s  MB/s  p50 ms  p99 ms  CPU ns/row  allocs/row  of limit  spread  compared with\n" +
		"a             12   0.0   0.000   0.000           -        0.00         -     10%  -\n" +
		"longer    123456   0.0   0.000   0.000           7        0.00      0.50      0%  2.00 rawfile\n"
	if out.String() != want {
		t.Errorf("table is\n%s\nwant\n%s", out.String(), want)
	}
}
