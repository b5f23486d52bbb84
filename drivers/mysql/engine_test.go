package mysql

import (
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/mapping"
)

// Two engines feed one table, which a later definition extends. What MySQL cannot store is refused at ingestion.
func TestEngines(t *testing.T) {
	target := open(t, Options{})
	want := clienttest.Engines(t, target, mapping.Path("share", "share", mapping.DataType(datatype.Float64)), `"NaN"`, mapping.NotFinite)
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
	count := func() (n int, err error) {
		err = target.db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+quote(clienttest.Table)).Scan(&n)
		return n, err
	}
	clienttest.KillsOfTheServer(t, tables(t, target), count, &server, false)
}
