package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// protocols compares OTLP over gRPC with OTLP over HTTP, with the columns of the preset for logs. The servers of gRPC are in a separate
// module, so the measurement is a benchmark of the module internal/otlptest, which this scenario runs. It needs a clone.
func protocols(ctx context.Context, e *env) (*sample, error) {
	const records = 400 * 100 // that each of the four ways sends in a round
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return nil, err
	}
	module := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "internal", "otlptest")
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return nil, fmt.Errorf("run this in a clone of the repository: %w", err)
	}
	rounds := max(1, int(e.duration/(100*time.Millisecond)))
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-run", "^$", "-bench", "^BenchmarkLogs$/^columns=preset$", "-benchtime", fmt.Sprintf("%dx", rounds), ".")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off", "TMPDIR="+e.dir) // the engines are on the disk under test
	var errs strings.Builder
	cmd.Stderr = &errs
	if out, err = cmd.Output(); err != nil {
		return nil, fmt.Errorf("%w\n%s%s", err, out, errs.String())
	}
	figures, err := benchmarkFigures(string(out))
	if err != nil {
		return nil, err
	}
	s := &sample{Rows: int64(rounds * records), Total: int64(rounds * records), Written: -1, Figures: map[string]float64{}}
	s.Elapsed = time.Duration(float64(s.Rows) / figures["http64-records/s"] * float64(time.Second))
	s.CPU = time.Duration(figures["http64-server-ns/record"] * float64(s.Rows))
	for name, field := range map[string]string{
		"grpc64-records/s": "grpc64_rows_per_s", "grpc8-records/s": "grpc8_rows_per_s",
		"grpc64-rate-of-http": "grpc64_of_http", "grpc8-rate-of-http": "grpc8_of_http", "grpc2-rate-of-http": "grpc2_of_http", "grpc8-CPU-of-http": "grpc8_cpu_of_http",
	} {
		value, ok := figures[name]
		if !ok {
			return nil, fmt.Errorf("the benchmark has no figure %s, only %q", name, slices.Sorted(maps.Keys(figures)))
		}
		s.Figures[field] = value
	}
	return s, nil
}

// benchmarkFigures reads the figures of the only line of a benchmark, pairs of a value and its unit.
func benchmarkFigures(out string) (map[string]float64, error) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		figures := map[string]float64{}
		for pair := range slices.Chunk(fields[2:], 2) {
			if len(pair) < 2 {
				return nil, fmt.Errorf("a line without pairs: %q", line)
			}
			value, err := strconv.ParseFloat(pair[0], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			figures[pair[1]] = value
		}
		return figures, nil
	}
	return nil, fmt.Errorf("no benchmark in %q", out)
}
