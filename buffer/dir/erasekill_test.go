package dir_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/erasetest"
)

// A process is killed again and again while it erases rows that wait for CSV.
func TestKillsDuringEraseOfWaitingRows(t *testing.T) {
	tables := func(folder string) *dir.TableDir { return dir.Tables(filepath.Join(folder, "tables")) }
	erasetest.Harness{
		Open: func(_ *testing.T, folder string) driver.Target {
			return tables(folder)
		},
		Rows: func(t *testing.T, folder string) (rows [][]string) {
			for row, err := range tables(folder).Rows("people") {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if err != nil {
					t.Fatal(err)
				}
				rows = append(rows, append([]string(nil), row...))
			}
			return rows
		},
	}.Kills(t)
}
