package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/drivertest"
)

// Rows whose time has passed are removed, in several transactions, and no others. The file that brought them still counts as imported.
func TestKeepFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{KeepFor: 24 * time.Hour, KeepBy: []string{"at", "DAY"}})
	drivertest.KeepFor(t, tables(t, path, target), `it's "odd"`, `WITH RECURSIVE r(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM r WHERE i < 3600)
		INSERT INTO "it's ""odd""" SELECT i, '2026-01-01T00:00:00.000000Z', NULL FROM r`)
}
