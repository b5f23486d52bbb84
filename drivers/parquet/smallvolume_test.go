//go:build linux

package parquet_test

import (
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/fulldisktest"
)

// The volume becomes full while parts are written and merged.
func TestSmallVolumeIsFull(t *testing.T) {
	fulldisktest.Play(t, fulldisktest.Harness{
		Open: func(t *testing.T, folder string) driver.Target { return mustTables(t, folder, parquet.Options{}) },
		Rows: func(t *testing.T, target driver.Target, _, table string) [][]string {
			return rowsOf(t, target.(*parquet.Target), table)
		},
	})
}
