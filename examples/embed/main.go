// Command embed is the smallest useful program. It opens an engine, defines a source with one table, and stores an event.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/mapping"
)

func main() {
	if err := run(context.Background(), "embed-data"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string) (err error) {
	eng, err := forebay.Open(dir, forebay.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	err = eng.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{
		ID: "in.c-embed.events", Columns: mapping.Columns{mapping.UUID("id"), mapping.Path("user", "user.id"), mapping.Body("body")},
	}}}})
	if err != nil {
		return err
	}
	result, err := eng.Ingest(ctx, "web", mapping.JSON([]byte(`{"kind":"signup","user":{"id":42}}`)))
	if err != nil {
		return err
	}
	fmt.Println(result.Sinks[0].Status, "- the row will be in", dir+"/tables/in.c-embed.events")
	return eng.Flush(ctx, "web") // now it is
}
