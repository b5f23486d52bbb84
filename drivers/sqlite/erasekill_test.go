package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/erasetest"
)

// A process is killed again and again while it erases rows that wait for SQLite. The statement of the report deletes the rows that were imported
// before their erasure.
func TestKillsDuringEraseOfWaitingRows(t *testing.T) {
	t.Parallel()
	path := func(folder string) string { return filepath.Join(folder, "events.db") }
	erasetest.Harness{
		Open: func(t *testing.T, folder string) driver.Target {
			target, err := sqlite.Open(path(folder), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return target
		},
		Rows: func(t *testing.T, folder string) [][]string {
			return drivertest.Texts(t, database(t, path(folder)), "SELECT n, email FROM people")
		},
		After: func(t *testing.T, folder string, r forebay.EraseReport) {
			db := database(t, path(folder))
			var person, all int
			_, err := db.ExecContext(t.Context(), r.Tables[0].SQL)
			if err == nil {
				err = db.QueryRowContext(t.Context(), "SELECT count(*) FILTER (WHERE email = 'ada@example.com'), count(*) FROM people").Scan(&person, &all)
			}
			if err != nil || person != 0 || all == 0 {
				t.Errorf("%s: %v, and %d of %d rows are of the person", r.Tables[0].SQL, err, person, all)
			}
		},
	}.Kills(t)
}
