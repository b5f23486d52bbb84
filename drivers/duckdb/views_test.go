package duckdb_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/viewtest"
)

// The views of telemetry, and the queries of the page about it, work in DuckDB.
func TestTelemetryViews(t *testing.T) {
	target := open(t, filepath.Join(t.TempDir(), "telemetry.db"), duckdb.Options{})
	viewtest.Run(t, target, viewtest.SQL{DB: target.DB()}, viewtest.Where{Dialect: "duckdb"})
}
