//go:build linux

package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/fulldisktest"
)

// The volume becomes full when SQLite is about to move the log into the file.
func TestSmallVolumeIsFull(t *testing.T) {
	t.Parallel()
	fulldisktest.Play(t, fulldisktest.Harness{
		Open: func(t *testing.T, folder string) driver.Target {
			target, err := sqlite.Open(filepath.Join(folder, "a.db"), sqlite.Options{MaxWAL: 4 << 20})
			if err != nil {
				t.Fatal(err)
			}
			return target
		},
		Rows: func(t *testing.T, _ driver.Target, folder, table string) [][]string {
			return rows(t, filepath.Join(folder, "a.db"), table)
		},
		Log:        "a.db-wal",
		Checkpoint: 4 << 20,
	})
}
