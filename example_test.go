package forebay_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "forebay")
	defer os.RemoveAll(dir)

	eng, err := forebay.Open(dir, forebay.Options{}) // tables are folders of CSV files in dir/tables
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()

	err = eng.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "events",
		Table: forebay.Table{ID: "in.c-web.events", Columns: mapping.Columns{
			mapping.UUID("id"), mapping.Datetime("at"), mapping.Path("user", "user.id"),
		}},
	}}})
	if err != nil {
		log.Fatal(err)
	}

	res, err := eng.Ingest(ctx, "web", mapping.JSON([]byte(`{"user":{"id":42}}`)))
	if err != nil {
		log.Fatal(err) // names the sink, the column and the cause
	}
	fmt.Println(res.Sinks[0].Status)   // stored: on local disk, a crash does not lose it
	fmt.Println(eng.Flush(ctx, "web")) // returns when the row is in the table

	// Output:
	// stored
	// <nil>
}

// Events that are values of the program need no marshalling by the caller: one by one, many with one wait, or submitted and
// waited for later.
func Example_goValues() {
	ctx := context.Background()
	data, _ := os.MkdirTemp("", "forebay")
	defer os.RemoveAll(data)
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	err = eng.Define(ctx, forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "orders",
		Table: forebay.Table{ID: "in.c-shop.orders", Columns: mapping.Columns{
			mapping.Path("id", "id"), mapping.Path("first", "lines[0].sku", mapping.RawString()),
		}},
	}}})
	if err != nil {
		log.Fatal(err)
	}

	type line struct {
		SKU string `json:"sku"`
	}
	type order struct {
		ID    int    `json:"id"`
		Lines []line `json:"lines"`
	}
	results, err := eng.IngestBatch(ctx, "shop", []*mapping.Record{
		mapping.From(order{1, []line{{"A-1"}}}),
		mapping.From(order{ID: 2}), // no line, so no first one
		mapping.From(map[string]any{"id": func() {}}),
	})
	for _, r := range results {
		fmt.Println(r.Sinks[0].Status, r.Sinks[0].Err)
	}

	later, err := eng.Submit(ctx, "shop", mapping.From(&order{3, []line{{"B-2"}}}))
	if err != nil {
		log.Fatal(err)
	}
	res, err := later.Wait(ctx)
	fmt.Println(res.Sinks[0].Status, err)

	// Output:
	// stored <nil>
	// rejected column "first": path "lines[0].sku": "lines" is null and has no [0]; set a default if it may be missing
	// rejected column "id": the document cannot be written as JSON: json: unsupported type: func()
	// stored <nil>
}
