package iceberg_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/mapping"
)

// Events become rows of an Iceberg table, in a warehouse that is one folder.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "forebay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	target, err := iceberg.Open(filepath.Join(dir, "lake"), iceberg.Options{PartitionBy: "at"})
	if err != nil {
		log.Fatal(err)
	}
	defer target.Close() // after the engine
	engine, err := forebay.Open(filepath.Join(dir, "data"), forebay.Options{Target: target})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	err = engine.Define(ctx, forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{ID: "orders", Columns: mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64)), mapping.Path("at", "at", mapping.DataType(datatype.Timestamp)),
	}}}}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := engine.Ingest(ctx, "shop", mapping.JSON([]byte(`{"id":42,"at":"2026-11-22T08:00:00Z"}`))); err != nil {
		log.Fatal(err)
	}
	if err := engine.Flush(ctx, "shop"); err != nil {
		log.Fatal(err)
	}

	// Every reader of Iceberg sees the row. This one is iceberg-go.
	orders, err := target.Catalog().LoadTable(ctx, table.Identifier{"forebay", "orders"})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := orders.Scan(table.WithSelectedFields("id")).ToArrowTable(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Release()
	fmt.Println(rows.NumRows(), "row in", orders.Identifier())
	// Output: 1 row in [forebay orders]
}
