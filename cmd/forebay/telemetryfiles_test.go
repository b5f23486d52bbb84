//go:build forebay_iceberg

package main

import (
	"bytes"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/viewtest"
)

// script is the file with views that a server of telemetry writes.
func script(t *testing.T, cfg *serveConfig) string {
	t.Helper()
	if use, err := cfg.writeViews(); err != nil || !strings.Contains(use, viewsFile) {
		t.Fatalf("got %q, %v, want the use of the file, no error", use, err)
	}
	text, err := os.ReadFile(filepath.Join(cfg.Dir, viewsFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The views of tables in files give the results of all queries of the pages in DuckDB. DuckDB reads buckets and Iceberg with extensions, which are not in
// this program. So the script of a bucket reads the folder of the test's server, and the scripts of Iceberg read the data files of the current snapshot.
func TestViewsOfFiles(t *testing.T) {
	needs(t, "duckdb:")
	folder := t.TempDir()
	parse := func(t *testing.T, target string, flags ...string) *serveConfig {
		t.Helper()
		p := process{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), getenv: func(string) (string, bool) { return "", false }}
		f := new(telemetryFlags)
		cfg, err := p.parse("otlp", append([]string{"-dir", t.TempDir(), "-target", target}, flags...), verbFlags{register: f.register, complete: f.complete})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	// current is the metadata of each Iceberg table.
	current := map[string]string{}
	fill := func(t *testing.T, cfg *serveConfig) (files func(table string) string) {
		t.Helper()
		st, err := cfg.open(cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}()
		viewtest.Store(t, st.Target, cfg.telemetry[0])
		r, _ := st.Tables.(icebergReader)
		read := map[string]string{}
		for _, table := range []string{"logs", "metrics", "traces"} {
			if r.target == nil {
				break
			}
			paths, err := r.liveFiles(table)
			if err != nil || len(paths) == 0 {
				t.Fatalf("%s: got the files %q, %v, want some, no error", table, paths, err)
			}
			loaded, err := r.load(table)
			if err != nil {
				t.Fatal(err)
			}
			current[table] = loaded.MetadataLocation()
			read[table] = "read_parquet(['file://" + strings.Join(paths, "', 'file://") + "'], union_by_name = true)"
		}
		return func(table string) string { return read[table] }
	}
	ask := func(t *testing.T, statements ...string) {
		t.Helper()
		db, err := sql.Open("duckdb", "")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatalf("got %v, want no error\n%s", err, s)
			}
		}
		viewtest.Ask(t, viewtest.SQL{DB: db}, "duckdb")
		var types string
		err = db.QueryRow("SELECT concat_ws(', ', typeof(ReceivedAt), typeof(TimeUnixNano), typeof(LogAttributes)) FROM otel_logs LIMIT 1").Scan(&types)
		if want := "TIMESTAMP WITH TIME ZONE, BIGINT, JSON"; err != nil || types != want {
			t.Errorf("got the types %s, %v, want %s, no error", types, err, want)
		}
	}
	for name, flags := range map[string][]string{
		"CSV": nil, "CSV by day": {"-partition-by", "Timestamp"}, "CSV compressed": {"-gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := parse(t, "dir:"+filepath.Join(folder, name, "it's"), flags...)
			fill(t, cfg)
			ask(t, script(t, cfg))
		})
	}
	t.Run("bucket", func(t *testing.T) {
		u, err := url.Parse(bucketURL(t, "telemetry"))
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/lake"
		cfg := parse(t, "parquet:"+u.String())
		fill(t, cfg)
		local := strings.ReplaceAll(script(t, cfg), "read_parquet('s3://telemetry/lake/", "read_parquet('"+startedS3.BucketFolder("telemetry")+"/lake/")
		ask(t, local)
	})
	t.Run("Iceberg", func(t *testing.T) {
		warehouse := filepath.Join(folder, "lake")
		cfg := parse(t, "iceberg:"+warehouse)
		files := fill(t, cfg)
		statements := strings.Split(strings.TrimSuffix(script(t, cfg), ";\n\n"), ";\n\n")
		catalog, err := sql.Open("sqlite", "file:"+filepath.Join(warehouse, "catalog.db")+"?mode=ro")
		if err != nil {
			t.Fatal(err)
		}
		defer catalog.Close()
		var local []string
		found := 0
		for _, s := range statements {
			if _, lookup, ok := strings.Cut(s, "SET VARIABLE "); ok {
				name, lookup, _ := strings.Cut(lookup, " = ")
				var location string
				err := catalog.QueryRow(strings.Replace(strings.Trim(lookup, "()"), lake+".", "", 1)).Scan(&location)
				if want := current[strings.Trim(name, `"`)]; err != nil || location != want || want == "" {
					t.Errorf("got %q, %v, want %q, no error\n%s", location, err, want, s)
				}
				found++
				continue
			}
			if strings.HasPrefix(s, "ATTACH IF NOT EXISTS '"+warehouse+"/catalog.db' AS "+lake+" (TYPE sqlite, READ_ONLY)") {
				continue
			}
			for _, table := range []string{"logs", "metrics", "traces"} {
				s = strings.ReplaceAll(s, "iceberg_scan(getvariable('"+table+"'))", files(table))
			}
			local = append(local, s)
		}
		if found != 3 {
			t.Errorf("%d tables are found in the catalog, want 3", found)
		}
		ask(t, local...)

		rest := parse(t, "iceberg:https://catalog.example.com/api?warehouse=prod&namespace=events")
		attach := "ATTACH IF NOT EXISTS 'prod' AS " + lake + " (TYPE iceberg, ENDPOINT 'https://catalog.example.com/api');"
		views, ok := strings.CutPrefix(script(t, rest), attach)
		if !ok {
			t.Fatalf("got %s, want %s first", views, attach)
		}
		ask(
			t, "ATTACH ':memory:' AS "+lake, "CREATE SCHEMA "+lake+".events", "CREATE VIEW "+lake+".events.logs AS FROM "+files("logs"),
			"CREATE VIEW "+lake+".events.metrics AS FROM "+files("metrics"), "CREATE VIEW "+lake+".events.traces AS FROM "+files("traces"), views,
		)
	})
}
