package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asked is DuckDB's result of a query on the views of a server, from a copy of its database while it runs; "" if it cannot be read now.
func asked(t *testing.T, data, database, query string) string {
	t.Helper()
	open := ""
	if database != "" {
		open = filepath.Join(t.TempDir(), "copy.db")
		for _, suffix := range []string{"", ".wal"} {
			content, err := os.ReadFile(database + suffix)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(open+suffix, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	views, err := os.ReadFile(filepath.Join(data, viewsFile))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("duckdb", open)
	if err != nil {
		return "" // the copy was made within a checkpoint
	}
	defer db.Close()
	var answer string
	_, err = db.Exec(string(views))
	if err == nil {
		err = db.QueryRow(query).Scan(&answer)
	}
	if err != nil && open == "" && !strings.Contains(err.Error(), "no such file") && !strings.Contains(err.Error(), "No such file") { // a part of a version that was replaced
		t.Errorf("got %v, want no error, or a part that is gone\n%s", err, query)
	}
	return answer
}

// With one signal only the views of all signals work. With -keep-for alone a row that has been there for that time goes, and a later one stays.
func TestTelemetryIsKept(t *testing.T) {
	needs(t, "duckdb:")
	for _, kind := range []string{"parquet", "duckdb", "dir"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			data, database := filepath.Join(t.TempDir(), "data"), ""
			args := []string{"-dir", data, "-every", "1s", "-keep-for", "4s"}
			switch kind {
			case "duckdb":
				database = filepath.Join(t.TempDir(), "telemetry.db")
				args = append(args, "-target", "duckdb:"+database)
			case "dir":
				args = append(args, "-target", "dir:"+filepath.Join(t.TempDir(), "csv"))
			}
			s := start(t, nil, "otlp", args...)
			defer s.stop()
			secret, err := os.ReadFile(filepath.Join(data, secretFile))
			if err != nil {
				t.Fatal(err)
			}
			send := func(name string, n int) {
				t.Helper()
				body := fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":%q,"startTimeUnixNano":"%d"}]}]}]}`, name, n)
				if status, answer := s.post("otlp-http", "/v1/traces", body, "Authorization", "Bearer "+string(secret)); status != 200 {
					t.Fatalf("got %d %s, want 200", status, answer)
				}
			}
			const each = `(SELECT count(*) FROM otel_logs) || ' ' || (SELECT count(*) FROM otel_metrics_buckets) || ' ' || (SELECT count(*) FROM otel_metrics_quantiles)`
			if got := asked(t, data, database, "SELECT "+each); got != "0 0 0" && database == "" {
				t.Errorf("views before the first row: %q", got)
			}
			// The times that the sender gives are far away and do not count.
			const count = `SELECT (count(*) FILTER (WHERE SpanName = 'old') = 1) || ' ' || (count(*) FILTER (WHERE SpanName = 'new') > 0) || ' ' || ` + each + ` FROM otel_traces`
			send("old", 8_000_000_000_000_000_000)
			waitUntil(t, func() bool { return asked(t, data, database, count) == "true false 0 0 0" })
			n := 0
			waitUntil(t, func() bool {
				n++
				send("new", n)
				return asked(t, data, database, count) == "false true 0 0 0"
			})
		})
	}
}

// waitUntil looks for a condition several times a second.
func waitUntil(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("it has not happened for a minute")
		}
	}
}
