package mysql

import (
	"errors"
	"fmt"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
	"github.com/forebay/forebay/mapping"
)

// Two engines feed one table, which a later definition extends. What MySQL cannot store is refused at ingestion.
func TestEngines(t *testing.T) {
	target := open(t, Options{})
	columns := mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()),
		mapping.Path("name", "name", mapping.DataType(datatype.String)),
		mapping.Path("share", "share", mapping.DataType(datatype.Float64)),
	}
	more := append(columns[:3:3], mapping.Path("total", "total", mapping.DataType(datatype.Decimal(10, 2))))
	var want [][]string
	for n, columns := range []mapping.Columns{columns, more, columns} {
		engine, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		err = engine.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
			ID: "orders", Table: forebay.Table{ID: "shop.orders", Extend: true, Columns: columns},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			id := fmt.Sprint(10*n + i)
			if _, err := engine.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"id":`+id+`,"name":"a \"name\"","total":1.5}`))); err != nil {
				t.Fatal(err)
			}
			row := []string{id, `a "name"`, buffertest.Null, "1.50"}
			if len(columns) == 3 {
				row[3] = buffertest.Null
			}
			want = append(want, row)
		}
		var refused *mapping.Error
		if _, err := engine.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"id":1,"share":"NaN"}`))); !errors.As(err, &refused) {
			t.Errorf("Ingest of NaN = %v, want a *mapping.Error", err)
		}
		if err := engine.Flush(t.Context(), "shop"); err != nil {
			t.Error(err)
		}
		report, err := engine.Verify(t.Context())
		if err != nil {
			t.Errorf("Verify = %+v, %v", report, err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
	expectRows(t, target, "shop.orders", want...)
}

// Events are accepted while the database is away, even by an engine that opens meanwhile, and reach the table when it is back.
func TestOutage(t *testing.T) {
	target := open(t, Options{})
	source := forebay.Source{ID: "shop", Sinks: []forebay.Sink{{
		ID: "orders", Table: forebay.Table{ID: "orders", Columns: mapping.Columns{
			mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()),
		}},
	}}}
	dir := t.TempDir()
	var want [][]string
	start := func() *forebay.Engine {
		engine, err := forebay.Open(dir, forebay.Options{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Define(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		return engine
	}
	ingest := func(engine *forebay.Engine) {
		for range 10 {
			id := fmt.Sprint(len(want))
			if _, err := engine.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"id":`+id+`}`))); err != nil {
				t.Fatal(err)
			}
			want = append(want, []string{id})
		}
	}
	engine := start()
	ingest(engine)
	server.Kill(t)
	ingest(engine)
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	engine = start()
	ingest(engine)
	server.Restart(t)
	if err := engine.Flush(t.Context(), "shop"); err != nil {
		t.Error(err)
	}
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
	expectRows(t, target, "orders", want...)
}

// The server is killed at random moments while clients send and files are imported. The engine acknowledges every event, and each is in
// the table once.
func TestKillsOfTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts the server")
	}
	kills := proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	target := open(t, Options{})
	url, end, err := clienttest.Serve(t.TempDir(), target)
	if err != nil {
		t.Fatal(err)
	}
	clients := clienttest.Send(url)
	for range kills {
		rows := 0
		if err := server.Connect(t, "").QueryRow("SELECT count(*) FROM " + target.table(imports)).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		server.Wait(t, "", fmt.Sprintf("SELECT count(*) > %d FROM %s", rows, target.table(imports))) // imports continue
		clients.Wait(1 + rng.Int64N(1000))
		server.Kill(t)
		clients.Wait(rng.Int64N(100))
		server.Restart(t)
	}
	clients.Stop()
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if n := clients.Failed(); n > 0 {
		t.Errorf("%d events were not acknowledged while the server was away", n)
	}
	stored := map[clienttest.Event]int{}
	for _, row := range readTable(t, target.database, clienttest.Table) {
		var e clienttest.Event
		if _, err := fmt.Sscan(row[0]+" "+row[1], &e.Client, &e.Seq); err != nil {
			t.Fatal(err)
		}
		stored[e]++
	}
	clients.Check(t, stored)
}
