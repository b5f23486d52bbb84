//go:build linux

package iceberg_test

import (
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/fulldisktest"
)

// The volume becomes full while data files, metadata and the catalog are written.
func TestSmallVolumeIsFull(t *testing.T) {
	fulldisktest.Play(t, fulldisktest.Harness{
		Open: func(t *testing.T, folder string) driver.Target {
			target, err := iceberg.Open(folder, iceberg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return target
		},
		Rows: func(t *testing.T, target driver.Target, _, table string) [][]string {
			return rowsOf(t, target.(*iceberg.Local).Catalog(), table)
		},
	})
}
