package dir_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/erasetest"
)

// downTarget does not respond until it is up.
type downTarget struct {
	*dir.TableDir
	up *atomic.Bool
}

func (d downTarget) Import(ctx context.Context, f *driver.File) error {
	if !d.up.Load() {
		return erasetest.ErrDown
	}
	return d.TableDir.Import(ctx, f)
}

// A process is killed again and again while it erases rows that wait for CSV.
func TestKillsDuringEraseOfWaitingRows(t *testing.T) {
	tables := func(folder string) *dir.TableDir { return dir.Tables(filepath.Join(folder, "tables")) }
	erasetest.Harness{
		Open: func(_ *testing.T, folder string, up *atomic.Bool) driver.Target {
			return downTarget{tables(folder), up}
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
