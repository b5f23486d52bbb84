package iceberg_test

import (
	"testing"

	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/placetest"
)

func TestOneWarehouseForEachSpelling(t *testing.T) {
	placetest.Play(t, func(t *testing.T, folder string) buffer.Target {
		target, err := iceberg.Open(folder, iceberg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return target
	}, func(t *testing.T, target buffer.Target, table string) [][]string {
		return rowsOf(t, target.(*iceberg.Local).Catalog(), table)
	})
}
