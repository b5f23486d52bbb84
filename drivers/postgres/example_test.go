package postgres_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/postgres"
	"github.com/forebay/forebay/mapping"
)

func ExampleOpen() {
	target, err := postgres.Open("postgres://forebay@db.example/analytics", postgres.Options{Schema: "events", JSONB: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer target.Close() // after the engine
	fmt.Println(target.Limits().NoNUL)
	// Output: true
}

// database is the address of a database, and schema a schema in it. TestExample has a server for them.
var database, schema = "postgres://forebay@db.example/analytics", "public"

// Events become rows of a table in PostgreSQL. It prints: 42 paid
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "forebay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	target, err := postgres.Open(database, postgres.Options{Schema: schema})
	if err != nil {
		log.Fatal(err)
	}
	defer target.Close() // after the engine
	engine, err := forebay.Open(dir, forebay.Options{Target: target})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	err = engine.Define(ctx, forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "orders", Table: forebay.Table{ID: "orders", Columns: mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64)), mapping.Path("state", "state", mapping.DataType(datatype.String)),
	}}}}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := engine.Ingest(ctx, "shop", mapping.JSON([]byte(`{"id":42,"state":"paid"}`))); err != nil {
		log.Fatal(err)
	}
	if err := engine.Flush(ctx, "shop"); err != nil {
		log.Fatal(err)
	}

	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	var id int64
	var state string
	if err := conn.QueryRow(ctx, "SELECT id, state FROM "+pgx.Identifier{schema, "orders"}.Sanitize()).Scan(&id, &state); err != nil {
		log.Fatal(err)
	}
	fmt.Println(id, state)
}

// The example without a fixed output does what its comment says, on a real server.
func TestExample(t *testing.T) {
	before, beforeSchema, stdout := database, schema, os.Stdout
	database, schema = postgres.Server.URL(t), postgres.Server.Schema(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = write
	defer func() { database, schema, os.Stdout = before, beforeSchema, stdout }()
	Example()
	_ = write.Close()
	if out, err := io.ReadAll(read); string(out) != "42 paid\n" {
		t.Errorf("it printed %q, %v", out, err)
	}
}
