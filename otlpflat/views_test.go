package otlpflat_test

import (
	"strings"
	"testing"

	"github.com/forebay/forebay/otlpflat"
)

// The databases of the drivers' modules run the views. This test has the cases that they cannot see.
func TestViewsOfOptions(t *testing.T) {
	_, err := otlpflat.Views(otlpflat.ViewOptions{Dialect: "oracle", Folder: "lake", Schema: "s"})
	for _, want := range []string{`Dialect is "oracle"`, "Folder and Schema", "name at least one table"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if _, err := otlpflat.Views(otlpflat.ViewOptions{Dialect: otlpflat.PostgreSQL, Folder: "lake", Logs: "logs"}); err == nil {
		t.Error("PostgreSQL gets a folder")
	}
	logs, err := otlpflat.Views(otlpflat.ViewOptions{Dialect: otlpflat.DuckDB, Folder: "l'ake", Logs: "logs", Prefix: `a"b_`})
	if err != nil || len(logs) != 1 || !strings.HasPrefix(logs[0], `CREATE OR REPLACE VIEW "a""b_logs" AS`) ||
		!strings.HasSuffix(logs[0], `FROM read_parquet('l''ake/logs/**/*.parquet', union_by_name = true) AS t`) {
		t.Errorf("got %q, %v, want a view with an escaped path, no error", logs, err)
	}
	from := func(string) string { return "files" }
	for _, o := range []otlpflat.ViewOptions{{Dialect: otlpflat.SQLite}, {Dialect: otlpflat.DuckDB, Folder: "lake"}} {
		o.From, o.Logs = from, "logs"
		if _, err := otlpflat.Views(o); err == nil {
			t.Errorf("%s with the folder %q gets files of the caller, want an error", o.Dialect, o.Folder)
		}
	}
	all, err := otlpflat.Views(otlpflat.ViewOptions{Dialect: otlpflat.PostgreSQL, Schema: "obs", Logs: "l", Metrics: "m", Traces: "t"})
	if err != nil || len(all) != 11 {
		t.Errorf("got %d views, %v, want 11, no error", len(all), err)
	}
	for _, s := range all {
		if !strings.HasPrefix(s, `CREATE OR REPLACE VIEW "obs"."otel_`) || strings.Contains(s, ";") {
			t.Errorf("got %s, want strings.HasPrefix(s, `CREATE OR REPLACE VIEW \"obs\".\"otel_`) and !strings.Contains(s, \";\")", s)
		}
	}
}
