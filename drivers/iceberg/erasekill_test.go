package iceberg_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/erasetest"
)

// downTarget does not respond until it is up.
type downTarget struct {
	*iceberg.Local
	up *atomic.Bool
}

func (d downTarget) Import(ctx context.Context, f *driver.File) error {
	if !d.up.Load() {
		return erasetest.ErrDown
	}
	return d.Local.Import(ctx, f)
}

// A process is killed again and again while it erases rows that wait for Iceberg.
func TestKillsDuringEraseOfWaitingRows(t *testing.T) {
	lake := func(t *testing.T, folder string) *iceberg.Local {
		return open(t, filepath.Join(folder, "lake"), iceberg.Options{})
	}
	erasetest.Harness{
		Open: func(t *testing.T, folder string, up *atomic.Bool) driver.Target {
			return downTarget{lake(t, folder), up}
		},
		Rows:   func(t *testing.T, folder string) [][]string { return rowsOf(t, lake(t, folder).Catalog(), "people") },
		Moment: 600 * time.Millisecond,
	}.Kills(t)
}
