package postgres

import (
	"fmt"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
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
func TestKillsOfTheServer(t *testing.T) { killServer(t, clienttest.Serve, 1) }

// The same with several tables, whose files are imported together.
func TestKillsOfTheServerWithManyTables(t *testing.T) {
	target := killServer(t, clienttest.ServeMany, clienttest.ManyTables)
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

// killServer plays the kills of the server with an engine that fills some tables.
func killServer(t *testing.T, serve func(string, driver.Target) (string, func() error, error), tables int) *Target {
	if testing.Short() {
		t.Skip("restarts the server")
	}
	kills := proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	target := open(t, Options{})
	url, end, err := serve(t.TempDir(), target)
	if err != nil {
		t.Fatal(err)
	}
	clients := clienttest.Send(url)
	for range kills {
		rows := len(readTable(t, target.options.Schema, imports))
		waitFor(t, fmt.Sprintf("SELECT count(*) > %d FROM %s", rows, target.table(imports))) // imports continue
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
	for i := range tables {
		stored := map[clienttest.Event]int{}
		for _, row := range readTable(t, target.options.Schema, clienttest.TableOf(i)) {
			var e clienttest.Event
			if _, err := fmt.Sscan(row[0]+" "+row[1], &e.Client, &e.Seq); err != nil {
				t.Fatal(err)
			}
			stored[e]++
		}
		clients.Check(t, stored)
	}
	return target
}
