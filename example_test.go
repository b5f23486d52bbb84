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
	data, _ := os.MkdirTemp("", "forebay")
	defer os.RemoveAll(data)

	eng, err := forebay.Open(data, forebay.Options{}) // tables are folders of CSV files below data
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()

	err = eng.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{{
		ID: "events",
		Table: forebay.Table{ID: "in.c-web.events", Columns: mapping.Columns{
			mapping.UUID("id"),
			mapping.Datetime("at"),
			mapping.Path("user", "user.id"),
			mapping.Template("label", `Body("kind") + "/" + Header("X-Env", "prod")`),
		}},
	}}})
	if err != nil {
		log.Fatal(err)
	}

	res, err := eng.Ingest(ctx, "web", mapping.JSON([]byte(`{"kind":"login","user":{"id":42}}`)))
	if err != nil {
		log.Fatal(err) // names the sink, the column and the cause
	}
	fmt.Println(res.Sinks[0].Sink, res.Sinks[0].Status) // on local disk: a crash does not lose it

	if err := eng.Flush(ctx, "web"); err != nil { // in the table
		log.Fatal(err)
	}
	fmt.Println(eng.Stats().Sinks[0].Target.Rows, "row in the table")

	// Output:
	// events stored
	// 1 row in the table
}
