package main

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/viewtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

const (
	tracesToFill  = 200_000
	spansPerTrace = 10
)

// BenchmarkOneTrace asks for the ten spans of one trace among 2,000,000, in the tables of forebay otlp with its indexes and filters, and
// without them.
func BenchmarkOneTrace(b *testing.B) {
	var folder string
	files := func(kind, driver, dsn string) func() (string, func() (*sql.DB, error)) {
		return func() (string, func() (*sql.DB, error)) {
			place := filepath.Join(folder, "tables")
			return kind + place, func() (*sql.DB, error) { return sql.Open(driver, strings.ReplaceAll(dsn, "PLACE", place)) }
		}
	}
	for _, target := range []struct {
		name, driver, without string
		address               func() (target string, open func() (*sql.DB, error))
	}{
		{"PostgreSQL", "pgx", "{indexes: []}", func() (string, func() (*sql.DB, error)) {
			host, _, _ := strings.Cut(strings.TrimPrefix(postgresServer.URL(b), "host="), " ")
			url := "postgres://postgres@/postgres?host=" + host
			return url, func() (*sql.DB, error) { return sql.Open("pgx", url) }
		}},
		{"SQLite", "sqlite", "{indexes: []}", files("sqlite:", "sqlite", "file:PLACE")},
		{"MariaDB", "mysql", "{indexes: []}", func() (string, func() (*sql.DB, error)) {
			name := mysqlServer.Database(b)
			return mysqlServer.URL(name), func() (*sql.DB, error) { return mysqlServer.Open(name) }
		}},
		{"DuckDB", "duckdb", "", files("duckdb:", "duckdb", "PLACE")},
		{"Parquet", "duckdb", "{bloom: []}", files("parquet:", "duckdb", "")},
		{"Iceberg", "duckdb", "{bloom: []}", files("iceberg:", "duckdb", "")},
		{"CSV", "duckdb", "", files("dir:", "duckdb", "")},
	} {
		for _, options := range slices.Compact([]string{"", target.without}) {
			name := target.name
			if options != "" {
				name += " without"
			}
			b.Run(name, func(b *testing.B) {
				if !slices.Contains(sql.Drivers(), target.driver) {
					b.Skip("this build has no " + target.driver)
				}
				folder = b.TempDir()
				address, open := target.address()
				args := []string{"-dir", b.TempDir(), "-target", address, "-keep-for", "0s"}
				if options != "" {
					args = append(args, "-target-options", options)
				}
				from := fillTraces(b, args)
				db, err := open()
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				i, best, cpu := 0, time.Hour, viewtest.CPU()
				for b.Loop() {
					i += 7919
					var spans int
					query := fmt.Sprintf(`SELECT count("SpanName") FROM %s WHERE "TraceId" = '%s'`, from, traceID(i%tracesToFill))
					if target.driver == "mysql" {
						query = strings.ReplaceAll(query, `"`, "`")
					}
					began := time.Now()
					if err := db.QueryRow(query).Scan(&spans); err != nil || spans != spansPerTrace {
						b.Fatalf("got %d spans, want %d: %v", spans, spansPerTrace, err)
					}
					best = min(best, time.Since(began))
				}
				b.ReportMetric(float64(best.Microseconds())/1e3, "ms/best")
				if target.driver == "duckdb" || target.driver == "sqlite" { // in this process
					b.ReportMetric(float64((viewtest.CPU()-cpu).Milliseconds())/float64(b.N), "cpu-ms/op")
				}
			})
		}
	}
}

// traceID is spread over all values, as the ids of SDKs are.
func traceID(i int) pcommon.TraceID {
	var id pcommon.TraceID
	binary.BigEndian.PutUint64(id[:], uint64(i+1)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(id[8:], uint64(i))
	return id
}

// fillTraces stores the spans as the verb otlp does, and returns the table as fillTable does.
func fillTraces(b *testing.B, args []string) (from string) {
	b.Helper()
	start := time.Now().Add(-time.Hour)
	return fillTable(b, args, forebay.SignalTraces, func(yield func(iter.Seq[mapping.FieldDocument]) bool) {
		for first := 0; first < tracesToFill && yield(otlpflat.Traces(someTraces(first, start))); first += 1000 {
		}
	})
}

// someTraces returns a thousand traces.
func someTraces(first int, start time.Time) ptrace.Traces {
	batch := ptrace.NewTraces()
	resource := batch.ResourceSpans().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "shop")
	spans := resource.ScopeSpans().AppendEmpty().Spans()
	for s := range spansPerTrace { // spans of different traces arrive interleaved
		for i := first; i < first+1000; i++ {
			span := spans.AppendEmpty()
			span.SetTraceID(traceID(i))
			span.SetSpanID(pcommon.SpanID(binary.BigEndian.AppendUint64(nil, uint64(i*spansPerTrace+s)*0x9e3779b97f4a7c15)))
			span.SetName([]string{"GET /cart", "SELECT orders", "POST /pay"}[s%3])
			at := start.Add(time.Duration(i) * 10 * time.Millisecond)
			span.SetStartTimestamp(pcommon.NewTimestampFromTime(at))
			span.SetEndTimestamp(pcommon.NewTimestampFromTime(at.Add(time.Duration(s) * time.Millisecond)))
			span.Attributes().PutStr("http.route", "/cart")
			span.Attributes().PutInt("http.response.status_code", 200)
		}
	}
	return batch
}

// fillTable stores batches as the verb otlp does, and returns the name of the table, or what reads its files in DuckDB.
func fillTable(b testing.TB, args []string, signal forebay.Signal, batches iter.Seq[iter.Seq[mapping.FieldDocument]]) (from string) {
	b.Helper()
	p := process{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), getenv: func(string) (string, bool) { return "", false }}
	f := new(telemetryFlags)
	cfg, err := p.parse("otlp", args, verbFlags{register: f.register, complete: f.complete})
	if err != nil {
		b.Fatal(err)
	}
	st, err := cfg.open(cfg.Dir)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	if strings.HasPrefix(cfg.target, "postgres:") { // the database outlives a benchmark
		if _, err := postgresServer.Connect(b).Exec(b.Context(), `DROP TABLE IF EXISTS "`+string(signal)+`" CASCADE`); err != nil {
			b.Fatal(err)
		}
	}
	engine, err := forebay.Open(cfg.Dir, forebay.Options{Target: st.Target, Buffer: cfg.Tuning})
	if err != nil {
		b.Fatal(err)
	}
	defer engine.Close()
	source := f.source("secret-of-the-benchmark")
	source.Sinks = slices.DeleteFunc(source.Sinks, func(s forebay.Sink) bool { return s.AllowedSignals[0] != signal })
	if err := engine.Define(b.Context(), source); err != nil {
		b.Fatal(err)
	}
	received := time.Now().Add(-time.Hour)
	for docs := range batches {
		records := func(yield func(*mapping.Record) bool) {
			for doc := range docs {
				if !yield(&mapping.Record{Document: doc, Received: received}) {
					return
				}
			}
		}
		if res, err := engine.IngestAtomic(b.Context(), source.ID, forebay.Batch{Signal: signal, Records: records}); err != nil || res.Rejected > 0 {
			b.Fatalf("got %+v, %v, want no error and res.Rejected <= 0", res, err)
		}
	}
	if err := engine.FlushAll(b.Context()); err != nil {
		b.Fatal(err)
	}
	if iceberg, ok := st.Tables.(interface {
		liveFiles(name string) ([]string, error)
	}); ok {
		files, err := iceberg.liveFiles(string(signal))
		if err != nil {
			b.Fatal(err)
		}
		return "read_parquet(['" + strings.Join(files, "', '") + "'], union_by_name = true)"
	}
	if folder, ok := strings.CutPrefix(cfg.target, "parquet:"); ok {
		return "read_parquet('" + filepath.Join(folder, string(signal), "**", "*.parquet") + "', union_by_name = true)"
	}
	if folder, ok := strings.CutPrefix(cfg.target, "dir:"); ok {
		return readCSV(filepath.Join(folder, string(signal)))
	}
	return `"` + string(signal) + `"`
}
