package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/mapping"
)

// README.md shows the lines between the comments, so they compile and work as it says.
func Example() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "forebay")
	check(err)
	before, err := os.Getwd()
	check(errors.Join(err, os.Chdir(dir)))
	defer func() { check(errors.Join(os.Chdir(before), os.RemoveAll(dir))) }()

	// README.md begins
	target, err := sqlite.Open("events.db", sqlite.Options{})
	check(err) // ends the program unless err is nil
	engine, err := forebay.Open("data", forebay.Options{Target: target, Logger: slog.Default()})
	check(err)
	check(engine.Define(ctx, forebay.Source{ID: "web", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{
		ID: "events", Columns: mapping.Columns{mapping.UUID("id"), mapping.Datetime("at"), mapping.Path("user_id", "user.id")},
	}}}}))
	_, err = engine.Ingest(ctx, "web", mapping.JSON([]byte(`{"user":{"id":42}}`)))
	check(err)                      // nil: the row is on local disk
	check(engine.Flush(ctx, "web")) // the row is in the table; without Flush the engine moves it soon
	check(errors.Join(engine.Close(), target.Close()))
	// README.md ends

	db, err := sql.Open("sqlite", "events.db")
	check(err)
	defer db.Close()
	var user string
	check(db.QueryRowContext(ctx, `SELECT user_id FROM events`).Scan(&user))
	fmt.Println(user)
	// Output:
	// 42
}
