package parquet_test

import (
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/placetest"
)

func TestOneFolderForEachSpelling(t *testing.T) {
	for name, options := range map[string]parquet.Options{"merged": {}, "not merged": {MergeTo: -1}} {
		t.Run(name, func(t *testing.T) {
			placetest.Play(t, func(t *testing.T, folder string) driver.Target { return mustTables(t, folder, options) },
				func(t *testing.T, target driver.Target, table string) [][]string {
					return rowsOf(t, target.(*parquet.Target), table)
				})
		})
	}
}
