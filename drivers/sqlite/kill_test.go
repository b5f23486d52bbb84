package sqlite_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/internal/proctest"
	"github.com/forebay/forebay/internal/seedtest"
)

// serve is a whole program. It prints the address for events, and flushes and ends when its standard input ends.
func serve(folder string, serve func(string, driver.Target) (string, func() error, error)) error {
	target, err := sqlite.Open(filepath.Join(folder, "events.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	url, end, err := serve(filepath.Join(folder, "engine"), target)
	if err != nil {
		return err
	}
	fmt.Println(url)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(end(), target.Close())
}

// serveMoving is serve with a database for each of two targets, between which the sink moves.
func serveMoving(folder string) error {
	first, err := sqlite.Open(filepath.Join(folder, "first.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	second, err := sqlite.Open(filepath.Join(folder, "second.db"), sqlite.Options{})
	if err != nil {
		return errors.Join(err, first.Close())
	}
	url, end, err := clienttest.ServeMoving(filepath.Join(folder, "engine"), first, second)
	if err != nil {
		return err
	}
	fmt.Println(url)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(end(), first.Close(), second.Close())
}

// A whole engine is killed with SIGKILL at random moments while clients send and files are imported. Each acknowledged event is in the
// database once.
func TestKillsOfAnEngine(t *testing.T) {
	if folder, ok := proctest.Child(); ok {
		if err := serve(folder, clienttest.Serve); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	folder := t.TempDir()
	clients := sendAndKill(t, folder, proctest.Kills(t))
	stored := map[clienttest.Event]int{}
	addStored(t, filepath.Join(folder, "events.db"), stored)
	clients.Check(t, stored)
}

// sendAndKill kills the engine of a folder at random moments while clients send. Then it stops the clients and the engine.
func sendAndKill(t *testing.T, folder string, kills int) *clienttest.Clients {
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	p := proctest.Start(t, t.Name(), folder)
	clients := clienttest.Send(p.Line())
	for range kills {
		clients.Wait(1 + rng.Int64N(1000))
		p.Kill()
		p = proctest.Start(t, t.Name(), folder)
		clients.SendTo(p.Line())
	}
	clients.Stop()
	if out, err := p.Wait(); err != nil {
		t.Fatalf("the engine: %v: %s", err, out)
	}
	return clients
}

// addStored adds the rows of each event in a database.
func addStored(t *testing.T, path string, stored map[clienttest.Event]int) {
	addStoredIn(t, path, clienttest.Table, stored)
}

func addStoredIn(t *testing.T, path, table string, stored map[clienttest.Event]int) {
	db := database(t, path)
	list, err := db.Query("SELECT client, seq, count(*) FROM " + table + " GROUP BY client, seq")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for list.Next() {
		var e clienttest.Event
		var n int
		if err := list.Scan(&e.Client, &e.Seq, &n); err != nil {
			t.Fatal(err)
		}
		stored[e] += n
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	var files int
	if err := db.QueryRow("SELECT count(*) FROM _forebay_imports").Scan(&files); err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d files were imported into %s", files, filepath.Base(path)); files == 0 {
		t.Errorf("no file was imported into %s", filepath.Base(path))
	}
}

// The same with several tables, whose files are imported together.
func TestKillsOfAnEngineWithManyTables(t *testing.T) {
	if folder, ok := proctest.Child(); ok {
		if err := serve(folder, clienttest.ServeMany); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	folder := t.TempDir()
	clients := sendAndKill(t, folder, proctest.Kills(t))
	for i := range clienttest.ManyTables {
		stored := map[clienttest.Event]int{}
		addStoredIn(t, filepath.Join(folder, "events.db"), clienttest.TableOf(i), stored)
		clients.Check(t, stored)
	}
	// Files of one call have the same second of their import and successive places in the table of the ids.
	var together int
	err := database(t, filepath.Join(folder, "events.db")).QueryRow(`SELECT count(*) FROM _forebay_imports a JOIN _forebay_imports b
		ON b.rowid = a.rowid + 1 AND a.imported_at = b.imported_at AND a.table_id <> b.table_id`).Scan(&together)
	if err != nil || together == 0 {
		t.Errorf("got %d files that can have been imported together, %v", together, err)
	}
}

// The same with a sink that moves from one database to the other and back while clients send. Each acknowledged event is in one of them, once.
func TestKillsWhileASinkMoves(t *testing.T) {
	if folder, ok := proctest.Child(); ok {
		if err := serveMoving(folder); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	folder := t.TempDir()
	clients := sendAndKill(t, folder, 3*proctest.Kills(t))
	stored := map[clienttest.Event]int{}
	for _, name := range []string{"first.db", "second.db"} {
		addStored(t, filepath.Join(folder, name), stored)
	}
	clients.Check(t, stored)
}
