package clickhouse_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/clickhouse"
	"github.com/forebay/forebay/mapping"
)

func ExampleOpen() {
	target, err := clickhouse.Open("clickhouse://forebay:password@db.example:8443/analytics?tls=true", clickhouse.Options{
		OrderBy: []string{"tenant", "at"}, PartitionBy: "toYYYYMM(at)", TTL: "at + INTERVAL 90 DAY",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer target.Close() // after the engine
	fmt.Println(target.Limits().MinYear)
	// Output: 1900
}

// database is the address of a database. TestExample has a server for it.
var database = "clickhouse://forebay:password@db.example:8123/analytics"

// Events become rows of a MergeTree table in ClickHouse. Query it with: SELECT id, state FROM orders
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "forebay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	target, err := clickhouse.Open(database, clickhouse.Options{OrderBy: []string{"id"}})
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
		mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()), mapping.Path("state", "state", mapping.DataType(datatype.String)),
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
}

// The example without an output does what its comment says, on a real server.
func TestExample(t *testing.T) {
	before := database
	defer func() { database = before }()
	name := clickhouse.Server.Database(t)
	database = clickhouse.Server.URL(name)
	Example()
	rows := clickhouse.Server.Rows(t, "SELECT toString(id), state FROM "+name+".orders")
	if len(rows) != 1 || *rows[0][0] != "42" || *rows[0][1] != "paid" {
		t.Errorf("the table has %v", rows)
	}
}
