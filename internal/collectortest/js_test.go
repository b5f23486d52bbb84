package collectortest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay"
)

// The SDK for JavaScript delivers each record once with its values, in the three encodings that it has.
func TestJavaScript(t *testing.T) {
	folder := needSDK(t, "sdk-logs")
	s := newServer(t)
	s.serve()
	const n = 1000 // more than a batch of the SDK
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "shop.js", fmt.Sprint(n))
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+s.httpAddr, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://"+s.grpcAddr,
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20"+secret, "OTEL_BLRP_MAX_QUEUE_SIZE=4096", "OTEL_BSP_MAX_QUEUE_SIZE=4096")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("got %v\n%s\nwant no error and len(out) <= 0", err, out)
	}
	if err := s.engine.Flush(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	once := func(signal forebay.Signal, attributes string) int {
		t.Helper()
		var a struct {
			N int `json:"order.n"`
		}
		if err := json.Unmarshal([]byte(attributes), &a); err != nil || seen[fmt.Sprint(signal, a.N)] {
			t.Fatalf("%s: %s: %v, or it is there twice", signal, attributes, err)
		}
		seen[fmt.Sprint(signal, a.N)] = true
		return a.N
	}
	for _, row := range s.rows(forebay.SignalLogs) {
		k := once(forebay.SignalLogs, row["LogAttributes"])
		body := fmt.Sprint("order ", k)
		if k%2 == 1 {
			body = fmt.Sprintf(`{"order":%d}`, k)
		}
		if row["Body"] != body || row["SeverityText"] != "INFO" || row["SeverityNumber"] != "9" || row["ServiceName"] != "js-shop" || row["TimeUnixNano"] == "" {
			t.Fatalf("log %d is %v", k, row)
		}
	}
	for _, row := range s.rows(forebay.SignalTraces) {
		k := once(forebay.SignalTraces, row["SpanAttributes"])
		status := []string{"Unset", "Error"}[k%2]
		if row["SpanName"] != "order" || row["SpanKind"] != "Server" || row["StatusCode"] != status || row["Duration"] == "" || !strings.Contains(row["Events"], `"name":"paid"`) ||
			len(row["TraceId"]) != 32 || len(row["SpanId"]) != 16 {
			t.Fatalf("span %d is %v", k, row)
		}
	}
	if len(seen) != 2*n {
		t.Errorf("got %d logs and spans, want %d", len(seen), 2*n)
	}
	last := map[string]map[string]string{}
	for _, row := range s.rows(forebay.SignalMetrics) {
		last[row["MetricName"]] = row
	}
	if r := last["orders"]; r["Value"] != fmt.Sprint(n) || r["IsMonotonic"] != "true" || r["AggregationTemporality"] != "Cumulative" {
		t.Errorf("orders: %v", r)
	}
	if r := last["amount"]; r["Count"] != fmt.Sprint(n) || r["Sum"] != fmt.Sprint(n*(n-1)/2) || r["MetricType"] != "histogram" || !strings.HasPrefix(r["BucketCounts"], "[1,5,5,") {
		t.Errorf("amount: %v", r)
	}
}

// A program logs one line in a loop. Its clock has milliseconds, so most of the batches have equal bytes, and each is a row.
func TestJavaScriptLoop(t *testing.T) {
	folder := needSDK(t, "sdk-logs")
	s := newServer(t)
	s.serve()
	const n = 200
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "loop.js", fmt.Sprint(n))
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+s.httpAddr, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20"+secret)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("got %v\n%s\nwant no error and len(out) <= 0", err, out)
	}
	if err := s.engine.Flush(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	rows, times := s.rows(forebay.SignalLogs), map[string]bool{}
	for _, row := range rows {
		times[row["TimeUnixNano"]] = true
	}
	if len(rows) != n {
		t.Errorf("got %d rows with %d different times, want %d rows", len(rows), len(times), n)
	}
	if len(times) == n {
		t.Errorf("the %d records have different times: this test shows nothing", n)
	}
}
