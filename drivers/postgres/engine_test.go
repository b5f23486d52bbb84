package postgres

import (
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/mapping"
)

// Two engines feed one table, which a later definition extends. What PostgreSQL cannot store is refused at ingestion.
func TestEngines(t *testing.T) {
	target := open(t, Options{})
	want := clienttest.Engines(t, target, mapping.Path("note", "note", mapping.DataType(datatype.String)), `"a\u0000b"`, mapping.HasNUL)
	expectRows(t, target, "shop.orders", want...)
}

// Events are accepted while the database is away, even by an engine that opens meanwhile, and reach the table when it is back.
func TestOutage(t *testing.T) {
	target := open(t, Options{})
	want := clienttest.Outage(t, target, func() { server.Kill(t) }, func() { server.Restart(t) })
	expectRows(t, target, "orders", want...)
}

// The server is killed at random moments while clients send and files are imported. The engine acknowledges every event, and each is in
// the table once.
func TestKillsOfTheServer(t *testing.T) {
	target := open(t, Options{})
	clienttest.KillsOfTheServer(t, tables(t, target), target.events(t), &server, false)
}

// events counts the rows of the table of package clienttest.
func (t *Target) events(tb testing.TB) func() (int, error) {
	return func() (n int, err error) {
		err = t.pool.QueryRow(tb.Context(), "SELECT count(*) FROM "+t.table(clienttest.Table)).Scan(&n)
		return n, err
	}
}

// The same with several tables, whose files are imported together.
func TestKillsOfTheServerWithManyTables(t *testing.T) {
	target := open(t, Options{})
	clienttest.KillsOfTheServer(t, tables(t, target), target.events(t), &server, true)
	times := map[string]int{} // now() is the same for all files of a transaction
	for _, row := range readTable(t, target.options.Schema, imports) {
		times[row[3]]++
	}
	for _, n := range times {
		if n > 1 {
			return
		}
	}
	t.Errorf("got no two files of one transaction among %d", len(times))
}
