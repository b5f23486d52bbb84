package parquet_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/mapping"
)

// Events become rows of Parquet files, in a folder for each table.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "forebay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	target, err := parquet.Tables(filepath.Join(dir, "lake"), parquet.Options{PartitionBy: "at"})
	if err != nil {
		log.Fatal(err)
	}
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

	parts, err := filepath.Glob(filepath.Join(target.Path("orders"), "dt=*", "*.parquet"))
	if err != nil || len(parts) != 1 {
		log.Fatal(parts, err)
	}
	fmt.Println(filepath.Base(filepath.Dir(parts[0]))) // DuckDB, Spark and pandas read the folder
	tail, err := target.Tail(ctx, "orders", 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", tail.Rows)
	// Output:
	// dt=2026-11-22
	// [[42 2026-11-22T08:00:00.000000Z]]
}
