package main

import (
	"net/http"
	"strings"
	"testing"
)

// Prometheus gets the metrics of the engine at the address of the API. The address for events does not serve them.
func TestMetrics(t *testing.T) {
	p := start(t, "FOREBAY_DIR="+t.TempDir(), "FOREBAY_SOURCE=web")
	for range 3 {
		if status, body := p.request("POST", p.url, `{"user":{"id":1},"kind":"click"}`); status != http.StatusOK {
			t.Fatalf("answered %d %s", status, body)
		}
	}
	status, body := p.request("GET", p.api+"/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("answered %d %s", status, body)
	}
	rows := 0
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "forebay_rows_accepted_total{") && strings.Contains(line, `source="web"`) && strings.HasSuffix(line, "} 3\n") {
			rows++
		}
	}
	if rows != 2 {
		t.Errorf("%d sinks have accepted three rows, want 2:\n%s", rows, body)
	}
	for _, name := range []string{"forebay_commit_duration_seconds_count", "forebay_rows_age_seconds", "forebay_disk_limit_bytes"} {
		if !strings.Contains(body, "\n"+name) {
			t.Errorf("there is no %s:\n%s", name, body)
		}
	}
	if status, _ := p.request("GET", p.base+"/metrics", ""); status == http.StatusOK {
		t.Error("the address of events gives metrics")
	}
	p.stop()
}
