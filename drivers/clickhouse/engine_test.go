package clickhouse

import (
	"strconv"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/mapping"
)

// Two engines feed one table, which a later definition extends. Values that ClickHouse cannot store are refused at ingestion.
func TestEngines(t *testing.T) {
	target := open(t, Options{})
	want := clienttest.Engines(t, target, mapping.Path("day", "day", mapping.DataType(datatype.Date)), `"1899-12-31"`, mapping.OutOfRange)
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
	rows := func(table string) [][]string { return readTable(t, target.client.database, table) }
	count := func() (n int, err error) {
		counted, err := target.client.rows(t.Context(), "SELECT toString(count()) FROM "+target.table(clienttest.Table))
		if err == nil {
			n, err = strconv.Atoi(counted[0][0])
		}
		return n, err
	}
	clienttest.KillsOfTheServer(t, drivertest.Tables{Target: target, Rows: rows}, count, &server, false)
}
