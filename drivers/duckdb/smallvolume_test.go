//go:build linux

package duckdb_test

import (
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/fulldisktest"
)

// The volume becomes full when Compact is about to move the log into the file.
func TestSmallVolumeIsFull(t *testing.T) {
	fulldisktest.Play(t, fulldisktest.Harness{
		Open: func(t *testing.T, folder string) driver.Target {
			target, err := duckdb.Open(filepath.Join(folder, "a.duckdb"), duckdb.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			return target
		},
		Rows: func(t *testing.T, target driver.Target, _, table string) [][]string {
			return rows(t, target.(*duckdb.Target).DB(), table)
		},
		Log:        "a.duckdb.wal",
		Checkpoint: 4 << 20,
	})
}
