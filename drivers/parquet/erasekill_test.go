package parquet_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/drivers/parquet/parquettest"
	"github.com/forebay/forebay/internal/erasetest"
)

// A process is killed again and again while it erases rows that wait for Parquet.
func TestKillsDuringEraseOfWaitingRows(t *testing.T) {
	t.Parallel()
	erasetest.Harness{
		Open: func(t *testing.T, folder string) driver.Target {
			return mustTables(t, filepath.Join(folder, "lake"), parquet.Options{})
		},
		Rows: func(t *testing.T, folder string) (rows [][]string) {
			table, err := filepath.EvalSymlinks(filepath.Join(folder, "lake", "people"))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			var paths []string
			if err == nil {
				paths, err = filepath.Glob(filepath.Join(table, "*.parquet"))
			}
			for _, path := range paths {
				var part [][]string
				if err == nil {
					part, err = parquettest.ReadPart(path, erasetest.Columns())
				}
				rows = append(rows, part...)
			}
			if err != nil {
				t.Fatal(err)
			}
			return rows
		},
	}.Kills(t)
}
