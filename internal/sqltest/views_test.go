package sqltest_test

import (
	"database/sql"
	"testing"

	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/viewtest"
)

// The views of telemetry, and the queries of the page about it, work in DuckDB on Parquet files, including tables with versions.
func TestTelemetryViews(t *testing.T) {
	for name, o := range map[string]parquet.Options{"flat": {}, "versions": {MergeTo: 1 << 20, PartitionBy: "Timestamp"}} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			target, err := parquet.Tables(folder, o)
			if err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("duckdb", "")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			viewtest.Run(t, target, viewtest.SQL{DB: db}, viewtest.Where{Dialect: "duckdb", Folder: folder})
		})
	}
}
