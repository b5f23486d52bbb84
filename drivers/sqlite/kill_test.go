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
	"github.com/forebay/forebay/internal/drivertest"
)

// serve is a whole program. It prints the address for events, and flushes and ends when its standard input ends.
func serve(serve func(string, driver.Target) (string, func() error, error)) func(folder string) error {
	return func(folder string) error {
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
	t.Parallel()
	folder, clients := clienttest.KillsOfTheEngine(t, 1, 1000, serve(clienttest.Serve))
	stored := map[clienttest.Event]int{}
	addStored(t, filepath.Join(folder, "events.db"), stored)
	clients.Check(t, stored)
}

// addStored adds the rows of each event in a database.
func addStored(t *testing.T, path string, stored map[clienttest.Event]int) {
	addStoredIn(t, path, clienttest.Table, stored)
}

func addStoredIn(t *testing.T, path, table string, stored map[clienttest.Event]int) {
	db := database(t, path)
	for _, row := range drivertest.Cells(t, db, "SELECT client, seq, count(*) FROM "+table+" GROUP BY client, seq") {
		e := clienttest.Event{Client: int(row[0].(int64)), Seq: int(row[1].(int64))}
		stored[e] += int(row[2].(int64))
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
	t.Parallel()
	folder, clients := clienttest.KillsOfTheEngine(t, 1, 1000, serve(clienttest.ServeMany))
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
	t.Parallel()
	folder, clients := clienttest.KillsOfTheEngine(t, 3, 1000, serveMoving)
	stored := map[clienttest.Event]int{}
	for _, name := range []string{"first.db", "second.db"} {
		addStored(t, filepath.Join(folder, name), stored)
	}
	clients.Check(t, stored)
}
