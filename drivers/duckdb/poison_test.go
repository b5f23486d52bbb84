package duckdb_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/refusedtest"
)

// A process is killed while it imports files with rows that the table refuses. Each row is in the table once, or once in the quarantine with its
// reason.
func TestKillsWithRefusedRows(t *testing.T) {
	path := func(folder string) string { return filepath.Join(folder, "events.duckdb") }
	refusedtest.Kills(t, refusedtest.Harness{
		Create: func(t *testing.T, folder string) {
			target, err := duckdb.Open(path(folder), duckdb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := target.DB().Exec(`CREATE TABLE sums (id BIGINT NOT NULL CHECK (id % 60 <> 17 AND id % 60 <> 41), n BIGINT UNIQUE);
				INSERT INTO sums VALUES (0, 0)`); err != nil {
				t.Fatal(err)
			}
			if err := target.Close(); err != nil {
				t.Fatal(err)
			}
		},
		Open: func(folder string) (refusedtest.Target, error) {
			return duckdb.Open(path(folder), duckdb.Options{Threads: 1})
		},
		Database: func(_ *testing.T, _ string, target refusedtest.Target) *sql.DB { return target.(*duckdb.Target).DB() },
		Check:    "constraint", Unique: "constraint", Moment: 400 * time.Millisecond,
	})
}
