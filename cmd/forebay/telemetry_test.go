package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// A server without any flag for its tables keeps telemetry of both protocols in Parquet files, with views that DuckDB reads. It keeps its secret, and
// adds to its tables, when it starts again.
func TestOTLP(t *testing.T) {
	needs(t, "duckdb:")
	folder := t.TempDir()
	data := filepath.Join(folder, "data")
	var secret string
	for round := range 2 {
		s := start(t, nil, "otlp", "-dir", data, "-every", "1s")
		text, err := os.ReadFile(filepath.Join(data, secretFile))
		if err != nil || round > 0 && string(text) != secret {
			t.Fatalf("the secret is %q, was %q: %v", text, secret, err)
		}
		secret = string(text)
		if status, answer := s.post("otlp-http", "/v1/logs", `{}`, "Authorization", "Bearer wrong"); status < 400 {
			t.Errorf("a wrong secret is answered %d %s", status, answer)
		}
		m, tr := pmetric.NewMetrics(), ptrace.NewTraces()
		m.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(7)
		tr.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName("GET")
		points, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(m)
		if err != nil {
			t.Fatal(err)
		}
		spans, err := (&ptrace.JSONMarshaler{}).MarshalTraces(tr)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			for path, body := range map[string][]byte{"/v1/metrics": points, "/v1/traces": spans} {
				if status, answer := s.post("otlp-http", path, string(body), "Authorization", "Bearer "+secret); status != 200 {
					t.Fatalf("%s is answered %d %s, want 200", path, status, answer)
				}
			}
		}
		conn, err := grpc.NewClient(s.addr["otlp-grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		batch := plog.NewLogs()
		r := batch.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		r.Body().SetStr(strings.Repeat("paid ", round+1))
		r.SetTimestamp(1_795_464_000_000_000_001)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+secret)
		if _, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequestFromLogs(batch)); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		s.stop()
	}
	views, err := os.ReadFile(filepath.Join(data, viewsFile))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(string(views)); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		`SELECT count(*) FROM otel_logs WHERE Body LIKE 'paid%' AND TimeUnixNano = 1795464000000000001`: 2,
		`SELECT count(*) FROM otel_metrics_gauge WHERE Value = 7`:                                       1,
		`SELECT count(*) FROM otel_traces WHERE SpanName = 'GET'`:                                       1,
	} {
		var got int
		if err := db.QueryRow(query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", query, got, err, want)
		}
	}
}

// The defaults of the verb fit the target, and given values win.
func TestOTLPFlags(t *testing.T) {
	p := process{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), getenv: func(name string) (string, bool) {
		if name == "FOREBAY_OTLP_SECRET" {
			return "secret-of-the-environment", true
		}
		return "", false
	}}
	parse := func(args ...string) (*serveConfig, *telemetryFlags, error) {
		f := new(telemetryFlags)
		cfg, err := p.parse("otlp", args, verbFlags{register: f.register, complete: f.complete})
		return cfg, f, err
	}
	for _, tc := range []struct {
		args   string
		target string
		keep   time.Duration
		views  string // a part of them
		use    string
	}{
		{"", "parquet:data/telemetry", 24 * time.Hour, "data/telemetry/logs/**/*.parquet'", "duckdb -init 'v.sql'"},
		{"-dir d -keep-for 0s", "parquet:d/telemetry", 0, "d/telemetry/traces/", "duckdb -init 'v.sql'"},
		{"-target parquet:lake -keep-for 1h", "parquet:lake", time.Hour, "/lake/metrics/", "duckdb -init 'v.sql'"},
		{"-target dir:csv", "dir:csv", 24 * time.Hour, "/csv/logs/**/*.csv*'", "duckdb -init 'v.sql'"},
		{"-target dir:csv -no-header", "dir:csv", 24 * time.Hour, "", ""},
		{"-target duckdb:t.db", "duckdb:t.db", 24 * time.Hour, `FROM "logs"`, "duckdb -init 'v.sql' 't.db'"},
		{"-target postgres://me@db/x", "postgres://me@db/x", 24 * time.Hour, "json_array_elements", "psql -f 'v.sql'"},
		{"-target sqlite:t.db -keep-for 1h", "sqlite:t.db", time.Hour, "CREATE VIEW", "sqlite3 -init 'v.sql' 't.db'"},
		{"-target sqlite:t.db -keep-for 0s", "sqlite:t.db", 0, `json_each(t."Events")`, "sqlite3 -init 'v.sql' 't.db'"},
		{"-target clickhouse://me:a%2Fb@h1:8123,h2:8123/my%2Ddb?tls=true -target-options {\"engine\":\"ReplicatedMergeTree\"}", "clickhouse://me:a%2Fb@h1:8123,h2:8123/my%2Ddb?tls=true", 0, "CREATE VIEW `my-db`.`otel_logs`", "clickhouse-client --queries-file 'v.sql'"},
		{"-target mysql://me@db/x -keep-for 1h", "mysql://me@db/x", time.Hour, "CREATE OR REPLACE VIEW `x`.`otel_logs`", "mysql < 'v.sql'"},
		{"-target iceberg:lake", "iceberg:lake", 0, "iceberg_scan(getvariable('logs'))", "duckdb -init 'v.sql'"},
		{
			"-target iceberg:https://host/api?warehouse=w -target-options {\"namespace\":\"n\"}", "iceberg:https://host/api?warehouse=w", 0,
			`FROM forebay_lake."n"."logs"`, "in duckdb, CREATE SECRET for the catalog, then .read 'v.sql'",
		},
		{"-target parquet:s3://bucket/x?region=r", "parquet:s3://bucket/x?region=r", 0, "'s3://bucket/x/logs/**", "in duckdb, CREATE SECRET for the bucket, then .read 'v.sql'"},
		{"-target parquet:azblob://c/x/", "parquet:azblob://c/x/", 0, "'az://c/x/logs/**", "in duckdb, CREATE SECRET for the bucket, then .read 'v.sql'"},
	} {
		if leftOut(tc.args) {
			continue
		}
		cfg, f, err := parse(strings.Fields(tc.args)...)
		if err != nil {
			t.Errorf("%s: got %v, want no error", tc.args, err)
			continue
		}
		views, use, err := cfg.views("v.sql")
		if cfg.target != tc.target || cfg.tables.KeepFor != tc.keep || err != nil || !strings.Contains(views, tc.views) || (views == "") != (tc.use == "") ||
			!strings.HasPrefix(use, tc.use) || f.secret != "secret-of-the-environment" {
			t.Errorf("%s: target %q, kept for %s, use %q, %v, views %s", tc.args, cfg.target, cfg.tables.KeepFor, use, err, views)
		}
	}
	for args, want := range map[string]string{
		"-config forebay.yaml":                 "-config is a flag of serve",
		"-source web":                          "-source is a flag of serve",
		"-every 10ms":                          "-every is 10ms, must be 1s or more",
		"-otlp-secret short":                   "at least 16 characters",
		"-target iceberg:lake -keep-for 1h":    "-keep-for",
		"-target parquet:s3://b/p -keep-for 1": "keep-for",
	} {
		if leftOut(args) {
			continue
		}
		if _, _, err := parse(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

// The text after the first line comes once.
func TestAfterLine(t *testing.T) {
	var out bytes.Buffer
	w := &afterLine{out: &out, text: func(line string) string { return "[" + addressOf(line, "otlp-http") + "]\n" }}
	for _, text := range []string{"ready api=a otlp-http=b\n", "more\n"} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if got := out.String(); got != "ready api=a otlp-http=b\n[b]\nmore\n" {
		t.Errorf("got %q, want \"ready api=a otlp-http=b\\n[b]\\nmore\\n\"", got)
	}
}

// A server with a file writes the views of its telemetry, and logs how to use them. The names of the views of a second source contain its id.
func TestViewsOfServe(t *testing.T) {
	folder := t.TempDir()
	data, db := filepath.Join(folder, "data"), filepath.Join(folder, "t.db")
	const sinks = `
    settings: {upload: {interval: 1s}, import: {interval: 1s}}
    sinks:
      - {id: logs, table: $_logs, preset: otel_logs}
      - {id: errors, table: $_errors, preset: otel_logs}
      - {id: spans, table: $_spans, preset: otel_traces}
      - {id: points, table: $_points, preset: otel_metrics}
`
	text := "min-import-interval: 1s\nsources:\n"
	for _, id := range []string{"shop", "bank"} {
		text += "  - id: " + id + "\n    type: otlp\n    secret: secret-of-the-source-" + id + strings.ReplaceAll(sinks, "$", id)
	}
	file := filepath.Join(folder, "forebay.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, nil, "serve", "-config", file, "-dir", data, "-target", "sqlite:"+db)
	const body = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"without a time"}}]}]}]}`
	if status, answer := s.post("otlp-http", "/v1/logs", body, "Authorization", "Bearer secret-of-the-source-bank"); status != 200 {
		t.Fatalf("got %d %s, want 200", status, answer)
	}
	s.stop()
	views, err := os.ReadFile(filepath.Join(data, viewsFile))
	if err != nil || !strings.Contains(s.Logs(), "sqlite3 -init '"+filepath.Join(data, viewsFile)+"' '"+db+"'") {
		t.Fatalf("got %v, want no error and the command of sqlite3 in\n%s", err, s.Logs())
	}
	conn, err := sql.Open("sqlite", "file:"+db)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Exec(string(views)); err != nil {
		t.Fatal(err)
	}
	var late int
	err = conn.QueryRow(`SELECT count(*) FROM otel_bank_logs WHERE Body = 'without a time' AND unixepoch() - unixepoch(Timestamp) BETWEEN 0 AND 60`).Scan(&late)
	if err != nil || late != 1 {
		t.Errorf("got %d logs with the time of receipt, want 1: %v", late, err)
	}
	for _, view := range []string{"logs", "traces", "span_events", "span_links", "metrics_gauge", "metrics_buckets", "metrics_quantiles"} {
		for _, prefix := range []string{"otel_", "otel_bank_"} {
			var n int
			want := map[string]int{"otel_bank_logs": 1}[prefix+view]
			if err := conn.QueryRow("SELECT count(*) FROM " + prefix + view).Scan(&n); err != nil || n != want {
				t.Errorf("%s%s has %d rows, want %d: %v", prefix, view, n, want, err)
			}
		}
	}
}

// A server whose views cannot be written starts without them, and logs that.
func TestViewsThatCannotBeWritten(t *testing.T) {
	folder := t.TempDir()
	data := filepath.Join(folder, "data")
	if err := os.MkdirAll(filepath.Join(data, viewsFile, "file"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "forebay.yaml")
	write(t, file, "sources:\n  - {id: shop, type: otlp, secret: secret-of-the-source-shop, sinks: [{id: logs, table: logs, preset: otel_logs}]}\n")
	s := start(t, nil, "serve", "-config", file, "-dir", data, "-target", "sqlite:"+filepath.Join(folder, "t.db"))
	s.stop()
	if logs := s.Logs(); !strings.Contains(logs, "views of telemetry not written") {
		t.Errorf("got the log\n%s\nwant a warning about %s", logs, viewsFile)
	}
}
