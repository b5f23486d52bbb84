package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/viewtest"
)

// The views of telemetry work in SQLite.
func TestTelemetryViews(t *testing.T) {
	path := filepath.Join(t.TempDir(), "telemetry.db")
	viewtest.Run(t, open(t, path, sqlite.Options{}), viewtest.SQL{DB: database(t, path)}, viewtest.Where{Dialect: "sqlite"})
}
