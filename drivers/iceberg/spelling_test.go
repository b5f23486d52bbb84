package iceberg_test

import (
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/placetest"
)

func TestOneWarehouseForEachSpelling(t *testing.T) {
	placetest.Play(t, func(t *testing.T, folder string) driver.Target {
		target, err := iceberg.Open(folder, iceberg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return target
	}, func(t *testing.T, target driver.Target, table string) [][]string {
		return rowsOf(t, target.(*iceberg.Local).Catalog(), table)
	})
}
