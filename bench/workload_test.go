package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
)

func TestEventsHaveTheirSize(t *testing.T) {
	for _, w := range workloads() {
		for n := range 300 {
			body := w.body(n * 7919)
			if len(body) != w.bodyBytes || !json.Valid(body) {
				t.Fatalf("%s: event %d has %d bytes (valid JSON: %v), want %d: %s",
					w.name, n, len(body), json.Valid(body), w.bodyBytes, body)
			}
		}
		if bytes.Equal(w.body(1), w.body(2)) {
			t.Errorf("%s: two events are the same", w.name)
		}
	}
}

// The baselines write rows of one size, so every row of a workload must have nearly that.
func TestRowsHaveOneSize(t *testing.T) {
	for _, w := range workloads() {
		row := w.row()
		cells, err := csv.NewReader(bytes.NewReader(row)).Read()
		if err != nil {
			t.Fatal(err)
		}
		if len(cells) != 7 || cells[4] != string(w.body(0)) || cells[5] != "evt_00000000" || cells[6] != "0" {
			t.Errorf("%s: the row is %q", w.name, cells)
		}
		if diff := len(row) - w.rowBytes; diff < -8 || diff > 8 {
			t.Errorf("%s: a row has %d bytes, the workload says %d", w.name, len(row), w.rowBytes)
		}
		if !strings.Contains(cells[3], "billing-webhooks") {
			t.Errorf("%s: headers are %q", w.name, cells[3])
		}
	}
}

// The bodies of single columns have the sizes that are documented, and every column finds its value in each.
func TestTasksHaveTheirSize(t *testing.T) {
	for _, tc := range []struct {
		name string
		body func(int) []byte
		want int
	}{{"small", smallBody, 73}, {"nested", nestedBody, 29}, {"padded", paddedBody, 1024}} {
		for n := range events {
			if body := tc.body(n); len(body) != tc.want || !json.Valid(body) {
				t.Fatalf("%s: event %d has %d bytes, want %d: %s", tc.name, n, len(body), tc.want, body)
			}
		}
	}
}
