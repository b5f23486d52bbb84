package main

import (
	"database/sql"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/internal/viewtest"
	"github.com/forebay/forebay/mapping"
	"github.com/forebay/forebay/otlpflat"
)

// logDatabase is a database whose table of logs forebay otlp makes.
type logDatabase struct {
	name, dialect string
	open          func(tb testing.TB) (target string, db *sql.DB)
	// explain are statements whose result is the plan of the query that follows.
	explain []string
	// inOrder is in the plan of a query that reads an index in the order of the rows, and sorts is in other plans.
	inOrder, sorts string
}

var logDatabases = []logDatabase{
	{"PostgreSQL", "postgresql", func(tb testing.TB) (string, *sql.DB) {
		host, _, _ := strings.Cut(strings.TrimPrefix(postgresServer.URL(tb), "host="), " ")
		url := "postgres://postgres@/postgres?host=" + host
		return url, openSQL(tb, "pgx", url)
	}, []string{"SET enable_bitmapscan = off", "SET enable_seqscan = off", "EXPLAIN "}, "Index Scan Backward", "Sort"},
	{"SQLite", "sqlite", func(tb testing.TB) (string, *sql.DB) {
		file := filepath.Join(tb.TempDir(), "t.db")
		return "sqlite:" + file, openSQL(tb, "sqlite", "file:"+file)
	}, []string{"EXPLAIN QUERY PLAN "}, "USING INDEX", "TEMP B-TREE"},
	{"MariaDB", "mysql", func(tb testing.TB) (string, *sql.DB) {
		name := mysqlServer.Database(tb)
		return mysqlServer.URL(name), mysqlServer.Connect(tb, name)
	}, []string{"EXPLAIN "}, "range", "filesort"},
}

// logFiles are targets that DuckDB reads. They have no index.
var logFiles = []logDatabase{
	{name: "DuckDB", dialect: "duckdb", open: func(tb testing.TB) (string, *sql.DB) {
		file := filepath.Join(tb.TempDir(), "t.duckdb")
		return "duckdb:" + file, openSQL(tb, "duckdb", file)
	}},
	{name: "Parquet", dialect: "duckdb", open: inFiles("parquet:")},
	{name: "Iceberg", dialect: "duckdb", open: inFiles("iceberg:")},
	{name: "CSV", dialect: "duckdb", open: inFiles("dir:")},
}

func inFiles(kind string) func(tb testing.TB) (string, *sql.DB) {
	return func(tb testing.TB) (string, *sql.DB) { return kind + tb.TempDir(), openSQL(tb, "duckdb", "") }
}

func openSQL(tb testing.TB, driver, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(1) // settings are of the connection
	tb.Cleanup(func() { db.Close() })
	return db
}

// fill stores logs of one day and ten services, and makes the view.
func (d logDatabase) fill(tb testing.TB, logs int) *sql.DB {
	tb.Helper()
	target, db := d.open(tb)
	began := time.Now().Add(-24 * time.Hour)
	from := fillTable(tb, []string{"-dir", tb.TempDir(), "-target", target, "-keep-for", "0s"}, forebay.SignalLogs, func(yield func(iter.Seq[mapping.FieldDocument]) bool) {
		const each = 2000
		for first := 0; first < logs; first += each {
			batch := plog.NewLogs()
			for service := range 10 {
				resource := batch.ResourceLogs().AppendEmpty()
				resource.Resource().Attributes().PutStr("service.name", fmt.Sprint("service-", service))
				records := resource.ScopeLogs().AppendEmpty().LogRecords()
				for i := first + service; i < first+each; i += 10 {
					r := records.AppendEmpty()
					r.SetTimestamp(pcommon.NewTimestampFromTime(began.Add(time.Duration(float64(i) / float64(logs) * float64(24*time.Hour)))))
					r.SetSeverityText("INFO")
					r.Body().SetStr(fmt.Sprintf("GET /api/v1/orders/%d finished with status 200: %s", i, strings.Repeat("the gate opens when the basin is full ", 3)))
					r.Attributes().PutStr("http.route", "/api/v1/orders/{id}")
					r.Attributes().PutInt("http.response.status_code", 200)
				}
			}
			if !yield(otlpflat.Logs(batch)) {
				return
			}
		}
	})
	views := otlpflat.ViewOptions{Dialect: otlpflat.Dialect(d.dialect), Logs: "logs"}
	if strings.HasPrefix(from, "read_") {
		views.From = func(string) string { return from }
	}
	statements, err := otlpflat.Views(views)
	if err != nil {
		tb.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			tb.Fatalf("got %v, want no error\n%s", err, statement)
		}
	}
	if d.dialect == "postgresql" { // autovacuum does it
		if _, err := db.Exec("ANALYZE logs"); err != nil {
			tb.Fatal(err)
		}
	}
	return db
}

// query is the query of the page for the newest logs of a service in the last hour.
func (d logDatabase) query(tb testing.TB) string {
	tb.Helper()
	return strings.ReplaceAll(viewtest.Query(tb, d.dialect, "Grafana's logs panel"), "'shop'", "'service-3'")
}

// A database reads the newest logs of a service in the last hour in the order of an index of forebay otlp, and ends at the last one of the page. It
// does not read and sort the whole hour.
func TestLogsOfAServiceAreReadInOrder(t *testing.T) {
	for _, d := range logDatabases {
		t.Run(d.name, func(t *testing.T) {
			db := d.fill(t, 20_000)
			last := len(d.explain) - 1
			for _, statement := range d.explain[:last] {
				if _, err := db.Exec(statement); err != nil {
					t.Fatal(err)
				}
			}
			rows, err := viewtest.SQL{DB: db}.Query(t.Context(), d.explain[last]+d.query(t))
			if err != nil {
				t.Fatal(err)
			}
			var plan strings.Builder
			for _, row := range rows {
				for _, cell := range row {
					if text, ok := cell.([]byte); ok {
						cell = string(text)
					}
					fmt.Fprint(&plan, cell, " ")
				}
			}
			if !strings.Contains(plan.String(), d.inOrder) || strings.Contains(plan.String(), d.sorts) {
				t.Errorf("got the plan %s, want %s and no %s", &plan, d.inOrder, d.sorts)
			}
		})
	}
}

// BenchmarkLogsOfAService asks for the newest 1,000 logs of a service in the last hour, among 2,000,000 of a day, in the tables of forebay otlp.
func BenchmarkLogsOfAService(b *testing.B) {
	for _, d := range slices.Concat(logDatabases, logFiles) {
		b.Run(d.name, func(b *testing.B) {
			if d.dialect == "duckdb" && !slices.Contains(sql.Drivers(), "duckdb") {
				b.Skip("this build has no DuckDB")
			}
			db := d.fill(b, 2_000_000)
			query, best, cpu := d.query(b), time.Hour, viewtest.CPU()
			for b.Loop() {
				began := time.Now()
				rows, err := viewtest.SQL{DB: db}.Query(b.Context(), query)
				if err != nil || len(rows) != 1000 {
					b.Fatalf("got %d logs, %v, want 1,000", len(rows), err)
				}
				best = min(best, time.Since(began))
			}
			b.ReportMetric(float64(best.Microseconds())/1e3, "ms/best")
			if d.dialect == "duckdb" || d.dialect == "sqlite" { // in this process
				b.ReportMetric(float64((viewtest.CPU()-cpu).Milliseconds())/float64(b.N), "cpu-ms/op")
			}
		})
	}
}
