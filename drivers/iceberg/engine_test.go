package iceberg_test

import (
	"fmt"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/refusedtest"
	"github.com/forebay/forebay/mapping"
)

// Engines with other versions of a definition feed one table. Verify agrees after each, even if the data files were compacted.
func TestEngines(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{PartitionBy: "at"})
	columns := mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()),
		mapping.Path("at", "at", mapping.DataType(datatype.Timestamp)),
	}
	more := append(columns[:2:2], mapping.Path("total", "total", mapping.DataType(datatype.Decimal(10, 2))))
	totals := make(map[string]int)
	for n, columns := range []mapping.Columns{columns, more, columns} {
		engine, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		err = engine.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
			ID: "orders", Table: forebay.Table{ID: "events", Extend: true, Columns: columns},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			record := fmt.Sprintf(`{"id":%d,"at":"2026-11-%02dT12:00:00Z","total":1.5}`, 10*n+i, 1+i%2)
			if _, err := engine.Ingest(t.Context(), "shop", mapping.JSON([]byte(record))); err != nil {
				t.Fatal(err)
			}
		}
		if err := engine.Flush(t.Context(), "shop"); err != nil {
			t.Error(err)
		}
		for range 2 {
			if report, err := engine.Verify(t.Context()); err != nil {
				t.Errorf("Verify = %+v, %v", report, err)
			}
			rewrite(t, target.Catalog())
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
	expectIDs(t, target.Catalog(), "events", 30)
	for _, row := range rowsOf(t, target.Catalog(), "events") {
		totals[row[2]]++
	}
	if totals["1.50"] != 10 || totals[buffertest.Null] != 20 {
		t.Errorf("totals %v", totals)
	}
}

func TestTextIsUTF8(t *testing.T) {
	refusedtest.Text(t, open(t, t.TempDir(), iceberg.Options{}), "events")
}
