package iceberg_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/erasetest"
)

// A process is killed again and again while it erases rows that wait for Iceberg.
func TestKillsDuringEraseOfWaitingRows(t *testing.T) {
	lake := func(t *testing.T, folder string) *iceberg.Local {
		return open(t, filepath.Join(folder, "lake"), iceberg.Options{})
	}
	erasetest.Harness{
		Open: func(t *testing.T, folder string) driver.Target {
			return lake(t, folder)
		},
		Rows:   func(t *testing.T, folder string) [][]string { return rowsOf(t, lake(t, folder).Catalog(), "people") },
		Moment: 600 * time.Millisecond,
	}.Kills(t)
}
