package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/refusedtest"
)

// A process is killed while it imports files with rows that the table refuses. Each row is in the table once, or once in the quarantine with its
// code.
func TestKillsWithRefusedRows(t *testing.T) {
	t.Parallel()
	path := func(folder string) string { return filepath.Join(folder, "events.db") }
	refusedtest.Kills(t, refusedtest.Harness{
		Create: func(t *testing.T, folder string) {
			execute(t, path(folder), `CREATE TABLE sums (id INTEGER NOT NULL CHECK (id % 60 <> 17 AND id % 60 <> 41), n INTEGER UNIQUE) STRICT;
				INSERT INTO sums VALUES (0, 0)`)
		},
		Open: func(folder string) (refusedtest.Target, error) {
			return sqlite.Open(path(folder), sqlite.Options{LockTimeout: time.Minute})
		},
		Database: func(t *testing.T, folder string, _ refusedtest.Target) *sql.DB { return database(t, path(folder)) },
		Check:    "275",  // SQLITE_CONSTRAINT_CHECK
		Unique:   "2067", // SQLITE_CONSTRAINT_UNIQUE
		Moment:   10 * time.Millisecond,
	})
}
