package catalog_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/catalog"
	"github.com/forebay/forebay/mapping"
)

// A catalog keeps sources and sinks on disk, with versions. The next Open defines them again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "forebay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	eng, err := forebay.Open(dir, forebay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	cat, err := catalog.Open(filepath.Join(dir, "catalog"), eng, catalog.Options{Extend: true}) // tables grow with their columns
	if err != nil {
		log.Fatal(err)
	}
	defer cat.Close() // before the engine

	ann := catalog.By{Type: "user", UserName: "Ann"}
	spec := catalog.SourceSpec{ID: "shop", Name: "Shop", Type: forebay.HTTP, Settings: forebay.Settings{Sync: forebay.SyncWait}, Sinks: []catalog.SinkSpec{{
		ID: "orders", Name: "Orders", TableID: "in.c-shop.orders", Columns: mapping.Columns{mapping.Path("id", "id")},
	}}}
	task, err := cat.CreateSource(ann, spec) // all mistakes at once, as a *catalog.Error
	if err != nil {
		log.Fatal(err)
	}
	if task, err = task.Wait(ctx); err != nil { // a failure of the task is an error as well
		log.Fatal(err)
	}
	fmt.Println(task.Result)

	columns := append(spec.Sinks[0].Columns, mapping.Path("state", "state", mapping.Default("")))
	task, err = cat.UpdateSink(ann, "shop", "orders", catalog.SinkPatch{Columns: columns, ChangeDescription: "state is new"})
	if err == nil {
		_, err = task.Wait(ctx)
	}
	_, sink, _ := cat.Sink("shop", "orders")
	fmt.Println(err, "version", sink.Version.Number, "by", sink.Version.By.UserName)

	res, err := eng.Ingest(ctx, "shop", mapping.JSON([]byte(`{"id":42,"state":"paid"}`)))
	fmt.Println(res.Sinks[0].Status, err)
	// Output:
	// Source "shop" has been created.
	// <nil> version 2 by Ann
	// stored <nil>
}
