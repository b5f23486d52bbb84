package main

import "testing"

func TestBenchmarkFigures(t *testing.T) {
	const out = "goos: linux\nBenchmarkLogs/columns=preset/body=150-2   \t3\t 123 ns/op\t  250000 http64-records/s\t 0.98 grpc8-rate-of-http\nPASS\n"
	figures, err := benchmarkFigures(out)
	if err != nil || figures["http64-records/s"] != 250000 || figures["grpc8-rate-of-http"] != 0.98 || len(figures) != 3 {
		t.Errorf("got %v, %v, want 3 figures, 250000 records/s, 0.98 of HTTP, no error", figures, err)
	}
	for _, broken := range []string{"", "PASS", "BenchmarkA 1 2 ns/op 3\n", "BenchmarkA 1 x ns/op 3 b\n"} {
		if figures, err := benchmarkFigures(broken); err == nil {
			t.Errorf("%q is taken for %v", broken, figures)
		}
	}
}
