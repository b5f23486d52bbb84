package forebay_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
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

	err = eng.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{
		ID: "in.c-web.events", Columns: mapping.Columns{mapping.UUID("id"), mapping.Datetime("at"), mapping.Path("user", "user.id")},
	}}}})
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

// Events that are values of the program need no marshalling by the caller. They are ingested one by one, many with one wait, or submitted and
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

// A changed mapping runs alongside the current one before it is switched on.
func ExampleSinkHandle_Shadow() {
	ctx := context.Background()
	data, _ := os.MkdirTemp("", "forebay")
	defer os.RemoveAll(data)
	eng, err := forebay.Open(data, forebay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	sink := forebay.Sink{ID: "orders", Table: forebay.Table{ID: "in.c-shop.orders", Columns: mapping.Columns{mapping.Path("id", "id"), mapping.Path("total", "total")}}}
	if err := eng.Define(ctx, forebay.Source{ID: "shop", Sinks: []forebay.Sink{sink}}); err != nil {
		log.Fatal(err)
	}

	sink.Table.Columns = mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64)),
		mapping.Path("total", "total", mapping.DataType(datatype.Decimal(10, 2))),
	}
	shadow, err := eng.Sink("shop", sink.ID).Shadow(ctx, sink, forebay.ShadowOptions{For: time.Hour, Sample: 1})
	if err != nil {
		log.Fatal(err)
	}
	for _, body := range []string{`{"id":1,"total":9.90}`, `{"id":2,"total":9.9}`, `{"id":3,"total":9.999}`} { // from the senders
		if _, err := eng.Ingest(ctx, "shop", mapping.JSON([]byte(body))); err != nil {
			log.Fatal(err)
		}
	}
	report := shadow.Close() // or wait for shadow.Done()
	fmt.Println("equal", report.Equal, "different", report.Different, "only the current mapping takes", report.OnlyCurrent)
	total := report.Columns[1]
	fmt.Println(total.Name, total.Examples[0].Current.Text, "→", total.Examples[0].Changed.Text)
	fmt.Println(report.Errors[0].Message)

	// Output:
	// equal 1 different 1 only the current mapping takes 1
	// total 9.9 → 9.90
	// column "total": decimal(10,2): tooPrecise: "9.999" has more digits after the point than the type holds
}

// A sink that is added later gets the records of the past.
func ExampleSinkHandle_Replay() {
	ctx := context.Background()
	data, _ := os.MkdirTemp("", "forebay")
	defer os.RemoveAll(data)
	eng, err := forebay.Open(data, forebay.Options{Archive: dir.Archive(filepath.Join(data, "archive"), dir.ArchiveOptions{KeepFor: 90 * 24 * time.Hour})})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	shop := forebay.Source{ID: "shop", Archive: &forebay.ArchiveSettings{}} // no sink yet
	if err := eng.Define(ctx, shop); err != nil {
		log.Fatal(err)
	}
	for id := range 3 {
		if _, err := eng.Ingest(ctx, "shop", mapping.From(map[string]int{"id": id})); err != nil {
			log.Fatal(err)
		}
	}

	shop.Sinks = []forebay.Sink{{ID: "orders", Table: forebay.Table{ID: "in.c-shop.orders", Columns: mapping.Columns{mapping.Path("id", "id")}}}}
	if err := eng.Define(ctx, shop); err != nil {
		log.Fatal(err)
	}
	for range 2 { // the second call finds that the run is done
		p, err := eng.Sink("shop", "orders").Replay(ctx, forebay.ReplayOptions{Run: "first"})
		fmt.Println(p.Stored, p.Done(), err)
	}
	for _, s := range eng.Stats().Sinks {
		fmt.Println(s.Sink, s.Accepted)
	}

	// Output:
	// 3 true <nil>
	// 3 true <nil>
	// .archive 3
	// orders 3
}
