package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/mapping"
)

// accountEvents is the source of the recipe in docs/recipes.md, events of a product, with the tenant and the id that the product gave them.
func accountEvents() forebay.Source {
	return forebay.Source{ID: "product", Sinks: []forebay.Sink{{
		ID:       "events",
		OnReject: forebay.Quarantine, // events that do not fit are kept, with the reason
		Table: forebay.Table{ID: "account_events", Extend: true, Columns: mapping.Columns{
			mapping.Path("event_id", "id", mapping.DataType(datatype.UUID), mapping.Required()),
			mapping.Path("tenant", "tenant", mapping.DataType(datatype.Int64), mapping.Required()),
			mapping.Path("at", "at", mapping.DataType(datatype.Timestamp), mapping.Required()),
			mapping.Path("kind", "kind", mapping.DataType(datatype.String)),
			mapping.Path("amount", "amount", mapping.DataType(datatype.Decimal(12, 2))),
			mapping.Body("event", mapping.DataType(datatype.JSON)),
		}},
	}}}
}

// accountOptions let a row replace the one with its id, so that a sender may repeat an event whenever it likes.
func accountOptions() Options {
	return Options{Keys: map[string][]string{"account_events": {"event_id"}}, JSONB: true}
}

// Events that are sent again are one row, amounts keep their decimals, and what does not fit is in the quarantine.
func TestRecipe(t *testing.T) {
	target := open(t, accountOptions())
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if err := eng.Define(t.Context(), accountEvents()); err != nil {
		t.Fatal(err)
	}
	const id = "0197c5a1-0000-7000-8000-00000000000"
	for _, event := range []string{
		`{"id":"` + id + `1","tenant":7,"at":"2026-11-23T12:00:00Z","kind":"paid","amount":12.5}`,
		`{"id":"` + id + `1","tenant":7,"at":"2026-11-23T12:00:00Z","kind":"paid","amount":12.5}`,
		`{"id":"` + id + `2","tenant":7,"at":"2026-11-23T12:00:01Z"}`,
		`{"id":"` + id + `3","tenant":"seven","at":"2026-11-23T12:00:02Z"}`,
	} {
		if _, err := eng.Ingest(t.Context(), "product", mapping.JSON([]byte(event))); err != nil {
			t.Fatal(err)
		}
		if err := eng.Flush(t.Context(), "product"); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, row := range readTable(t, target.options.Schema, "account_events") {
		got = append(got, fmt.Sprint(row[:5]))
	}
	want := []string{
		fmt.Sprint([]string{id + "1", "7", "2026-11-23T12:00:00.000000Z", "paid", "12.50"}),
		fmt.Sprint([]string{id + "2", "7", "2026-11-23T12:00:01.000000Z", buffertest.Null, buffertest.Null}),
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the table has %q, want %q", got, want)
	}
	rejected := 0
	for record, err := range eng.Sink("product", "events").Quarantine().List(t.Context(), forebay.RejectedFilter{}) {
		if err != nil || record.Column != "tenant" {
			t.Errorf("got %+v, %v, want no error and record.Column == \"tenant\"", record, err)
		}
		rejected++
	}
	if rejected != 1 {
		t.Errorf("got %d events in the quarantine, want 1", rejected)
	}
}

// tenantPolicy lets each tenant see its own rows, as the recipe in docs/recipes.md says. The engine owns the table, so the policy does not concern it.
const tenantPolicy = `
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON events FOR SELECT USING (tenant = current_setting('app.tenant', true));
GRANT SELECT ON events TO dashboard;`

// With the policy a reader sees the rows of the tenant that its session names, and none without one. Imports and new columns work as before.
func TestTenantsSeeTheirRows(t *testing.T) {
	target := open(t, Options{})
	conn := server.Connect(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: got %v, want no error", sql, err)
		}
	}
	source := func(more ...mapping.Column) forebay.Source {
		return forebay.Source{ID: "app", Sinks: []forebay.Sink{{ID: "events", Table: forebay.Table{ID: "events", Extend: true, Columns: append(mapping.Columns{
			mapping.Path("tenant", "tenant", mapping.DataType(datatype.String)), mapping.Path("kind", "kind", mapping.DataType(datatype.String)),
		}, more...)}}}}
	}
	eng, err := forebay.Open(t.TempDir(), forebay.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	send := func(tenant string) {
		t.Helper()
		if _, err := eng.Ingest(t.Context(), "app", mapping.JSON([]byte(`{"tenant":"`+tenant+`","kind":"paid","amount":5}`))); err != nil {
			t.Fatal(err)
		}
	}
	if err := eng.Define(t.Context(), source()); err != nil {
		t.Fatal(err)
	}
	send("acme")
	if err := eng.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(`DROP ROLE IF EXISTS dashboard`)
	exec(`CREATE ROLE dashboard`)
	t.Cleanup(func() {
		for _, sql := range []string{`RESET ROLE`, `DROP OWNED BY dashboard`, `DROP ROLE dashboard`} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Errorf("%s: got %v, want no error", sql, err)
			}
		}
	})
	exec(`SET search_path TO ` + quote(target.options.Schema))
	exec(`GRANT USAGE ON SCHEMA ` + quote(target.options.Schema) + ` TO dashboard`)
	exec(tenantPolicy)
	if err := eng.Define(t.Context(), source(mapping.Path("amount", "amount", mapping.DataType(datatype.Int64)))); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "bolt", "bolt"} {
		send(tenant)
	}
	if err := eng.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(`SET ROLE dashboard`)
	for tenant, want := range map[string]int{"": 0, "acme": 2, "bolt": 2, "' OR true --": 0} {
		exec(`SELECT set_config('app.tenant', $1, false)`, tenant)
		var got int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&got); err != nil || got != want {
			t.Errorf("tenant %q sees %d rows, %v, want %d", tenant, got, err, want)
		}
	}
}
