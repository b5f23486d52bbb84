package parquet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/internal/refusedtest"
	"github.com/forebay/forebay/mapping"
)

// Two engines with separate targets feed one table at once, and one of them has one more column. Each spells the path of the folder
// differently.
func TestTwoEngines(t *testing.T) {
	lake := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(lake, link); err != nil {
		t.Fatal(err)
	}
	spellings := []string{lake, link}
	columns := mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()),
		mapping.Path("at", "at", mapping.DataType(datatype.Timestamp)),
	}
	more := append(columns[:2:2], mapping.Path("text", "text", mapping.DataType(datatype.String)))
	const files, rows = 10, 5
	var want [][]string
	var both sync.WaitGroup
	for n, columns := range []mapping.Columns{columns, more} {
		engine := clienttest.Define(t, t.TempDir(), mustTables(t, spellings[n], parquet.Options{PartitionBy: "at"}), forebay.Table{ID: "shop.orders", Extend: true, Columns: columns})
		defer engine.Close()
		all := manyRows(n*files*rows, files*rows)
		for _, row := range all {
			if row[1] == buffertest.Null {
				row[1] = "2026-11-01T00:00:00.000000Z"
			}
			stored := slices.Clone(row)
			if len(columns) == 2 {
				stored[2] = buffertest.Null
			}
			want = append(want, stored)
		}
		both.Go(func() {
			for i, row := range all {
				event := fmt.Sprintf(`{"id":%s,"at":%q,"text":%q}`, row[0], row[1], row[2])
				if _, err := engine.Ingest(t.Context(), "shop", mapping.JSON([]byte(event))); err != nil {
					t.Error(err)
				}
				if i%rows == rows-1 {
					if err := engine.Flush(t.Context(), "shop"); err != nil {
						t.Error(err)
					}
				}
			}
			if report, err := engine.Verify(t.Context()); err != nil {
				t.Errorf("Verify = %+v, %v", report, err)
			}
		})
	}
	both.Wait()
	expectRows(t, mustTables(t, lake, parquet.Options{}), "shop.orders", want)
}

func TestTextIsUTF8(t *testing.T) {
	refusedtest.Text(t, mustTables(t, t.TempDir(), parquet.Options{}), "shop.orders")
}
