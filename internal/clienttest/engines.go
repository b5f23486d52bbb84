package clienttest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// Engines has three engines, one after the other, fill the table shop.orders, which the second definition extends. Each refuses an event whose value
// for the column odd is bad, a JSON text, with a reason. It returns the rows that the table must have.
func Engines(t *testing.T, target driver.Target, odd mapping.Column, bad string, reason mapping.Reason) (want [][]string) {
	t.Helper()
	columns := mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()),
		mapping.Path("name", "name", mapping.DataType(datatype.String)),
		odd,
	}
	more := append(columns[:3:3], mapping.Path("total", "total", mapping.DataType(datatype.Decimal(10, 2))))
	for n, columns := range []mapping.Columns{columns, more, columns} {
		engine := Define(t, t.TempDir(), target, forebay.Table{ID: "shop.orders", Extend: true, Columns: columns})
		for i := range 10 {
			id := fmt.Sprint(10*n + i)
			ingest(t, engine, `{"id":`+id+`,"name":"a \"name\"","total":1.5}`)
			row := []string{id, `a "name"`, buffertest.Null, "1.50"}
			if len(columns) == 3 {
				row[3] = buffertest.Null
			}
			want = append(want, row)
		}
		var refused *mapping.Error
		if _, err := engine.Ingest(t.Context(), "shop", mapping.JSON([]byte(`{"id":1,"`+odd.Name+`":`+bad+`}`))); !errors.As(err, &refused) || refused.Reason != reason {
			t.Errorf("%s %s: got %v, want a *mapping.Error with the reason %v", odd.Name, bad, err, reason)
		}
		flushAndClose(t, engine)
	}
	return want
}

// Outage ingests events while the database is away, even with an engine that opens meanwhile, and flushes them into the table orders when it is
// back. It returns the rows that the table must have.
func Outage(t *testing.T, target driver.Target, kill, restart func()) (want [][]string) {
	t.Helper()
	dir := t.TempDir()
	table := forebay.Table{ID: "orders", Columns: mapping.Columns{mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required())}}
	ten := func(engine *forebay.Engine) {
		for range 10 {
			id := fmt.Sprint(len(want))
			ingest(t, engine, `{"id":`+id+`}`)
			want = append(want, []string{id})
		}
	}
	engine := Define(t, dir, target, table)
	ten(engine)
	kill()
	ten(engine)
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	engine = Define(t, dir, target, table)
	ten(engine)
	restart()
	flushAndClose(t, engine)
	return want
}

// Define opens an engine whose sink shop/orders fills a table.
func Define(t *testing.T, dir string, target driver.Target, table forebay.Table) *forebay.Engine {
	t.Helper()
	engine, err := forebay.Open(dir, forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Define(t.Context(), forebay.Source{ID: "shop", Sinks: []forebay.Sink{{ID: "orders", Table: table}}}); err != nil {
		t.Fatal(err)
	}
	return engine
}

func ingest(t *testing.T, engine *forebay.Engine, body string) {
	t.Helper()
	if _, err := engine.Ingest(t.Context(), "shop", mapping.JSON([]byte(body))); err != nil {
		t.Fatalf("%s: got %v, want no error", body, err)
	}
}

func flushAndClose(t *testing.T, engine *forebay.Engine) {
	t.Helper()
	if err := engine.Flush(t.Context(), "shop"); err != nil {
		t.Error(err)
	}
	if report, err := engine.Verify(t.Context()); err != nil {
		t.Errorf("Verify: got %+v, %v, want no error", report, err)
	}
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
}
