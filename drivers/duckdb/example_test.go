package duckdb_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/mapping"
)

// Events in, SQL out, in one process.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "events-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	target, err := duckdb.Open(filepath.Join(dir, "events.duckdb"), duckdb.Options{MemoryLimit: 256 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer target.Close() // after the engine
	engine, err := forebay.Open(filepath.Join(dir, "data"), forebay.Options{Target: target})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	err = engine.Define(ctx, forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "orders", Columns: mapping.Columns{
			mapping.Path("country", "country", mapping.DataType(datatype.String)),
			mapping.Path("total", "total", mapping.DataType(datatype.Decimal(10, 2))),
		}},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	for _, event := range []string{`{"country":"CZ","total":12.5}`, `{"country":"DE","total":30}`, `{"country":"CZ","total":0.25}`} {
		if _, err := engine.Ingest(ctx, "shop", mapping.JSON([]byte(event))); err != nil {
			log.Fatal(err)
		}
	}
	if err := engine.Flush(ctx, "shop"); err != nil { // or wait for the interval of imports
		log.Fatal(err)
	}
	rows, err := target.DB().QueryContext(ctx, "SELECT country, sum(total)::VARCHAR FROM orders GROUP BY ALL ORDER BY ALL")
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var country, total string
		if err := rows.Scan(&country, &total); err != nil {
			log.Fatal(err)
		}
		fmt.Println(country, total)
	}
	if err := rows.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// CZ 12.75
	// DE 30.00
}
