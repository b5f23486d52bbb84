package clienttest

import (
	"fmt"
	"testing"

	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// KillsOfTheServer kills the server of a target at random moments while clients send and files are imported into [Table], or into all tables of
// [ServeMany]. The engine acknowledges every event, and each is in each table once. count returns the number of rows of [Table], which hundreds of kills
// make too many to read each time. With -short the test is skipped.
func KillsOfTheServer(t *testing.T, target drivertest.Tables, count func() (int, error), server drivertest.Server, many bool) {
	t.Helper()
	if testing.Short() {
		t.Skip("restarts the server")
	}
	kills := proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	serve, tables := Serve, 1
	if many {
		serve, tables = ServeMany, ManyTables
	}
	url, end, err := serve(t.TempDir(), target.Target)
	if err != nil {
		t.Fatal(err)
	}
	clients := Send(url)
	for range kills {
		for first := -1; ; clients.Wait(1) { // until imports continue
			rows, err := count() // An error is about a connection that ended with the server.
			if err == nil && first < 0 {
				first = rows
			}
			if err == nil && rows > first {
				break
			}
		}
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
		t.Errorf("%d events were not acknowledged while the server was away, want none", n)
	}
	for i := range tables {
		stored := map[Event]int{}
		for _, row := range target.Rows(TableOf(i)) {
			var e Event
			if _, err := fmt.Sscan(row[0]+" "+row[1], &e.Client, &e.Seq); err != nil {
				t.Fatal(err)
			}
			stored[e]++
		}
		clients.Check(t, stored)
	}
}

// KillsOfTheEngine kills the process of an engine at random moments while clients send, times as often as FOREBAY_KILLS says and at most some calls
// after its start. Then it stops the clients and the engine. serve is the program: it prints the URL for [Send], and ends with its standard input. With
// -short the test is skipped. KillsOfTheEngine does not return in the process of the engine, which runs the calling test alone.
func KillsOfTheEngine(t *testing.T, times int, calls int64, serve func(folder string) error) (folder string, clients *Clients) {
	t.Helper()
	if folder, ok := proctest.Child(); ok {
		if err := serve(folder); err != nil {
			t.Fatal(err)
		}
		t.SkipNow()
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	kills := times * proctest.Kills(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	folder = t.TempDir()
	p := proctest.Start(t, t.Name(), folder)
	clients = Send(p.Line())
	for range kills {
		clients.Wait(1 + rng.Int64N(calls))
		p.Kill()
		p = proctest.Start(t, t.Name(), folder)
		clients.SendTo(p.Line())
	}
	clients.Stop()
	if out, err := p.Wait(); err != nil {
		t.Fatalf("the engine has ended with %v, want no error: %s", err, out)
	}
	return folder, clients
}
