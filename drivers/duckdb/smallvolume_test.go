//go:build linux

package duckdb_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/fulldisktest"
)

// The volume becomes full when Compact is about to move the log into the file.
func TestSmallVolumeIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("it mounts a volume and fills it")
	}
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
		Log: func(folder string) int64 {
			info, err := os.Stat(filepath.Join(folder, "a.duckdb.wal"))
			if err != nil {
				return 0
			}
			return info.Size()
		},
		Checkpoint: 4 << 20,
	})
}
