package sqlite_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/internal/killtest"
	"github.com/forebay/forebay/internal/seedtest"
)

// serve is a whole program: it prints the address for events, and flushes and ends when its standard input ends.
func serve(folder string) error {
	target, err := sqlite.Open(filepath.Join(folder, "events.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	url, end, err := clienttest.Serve(filepath.Join(folder, "engine"), target)
	if err != nil {
		return err
	}
	fmt.Println(url)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(end(), target.Close())
}

// A whole engine is killed with SIGKILL at random moments while clients send and files are imported. Each acknowledged event is in the
// database once.
func TestKillsOfAnEngine(t *testing.T) {
	if folder, ok := killtest.Child(); ok {
		if err := serve(folder); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	kills := killtest.Count(t)
	t.Logf("%d kills", kills)
	rng := seedtest.Rand(t)
	folder := t.TempDir()
	p := killtest.Start(t, t.Name(), folder)
	clients := clienttest.Send(p.Line())
	for range kills {
		clients.Wait(1 + rng.Int64N(1000))
		p.Kill()
		p = killtest.Start(t, t.Name(), folder)
		clients.SendTo(p.Line())
	}
	clients.Stop()
	if out, err := p.Wait(); err != nil {
		t.Fatalf("the engine: %v: %s", err, out)
	}
	db := database(t, filepath.Join(folder, "events.db"))
	stored := map[clienttest.Event]int{}
	list, err := db.Query("SELECT client, seq, count(*) FROM " + clienttest.Table + " GROUP BY client, seq")
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
		stored[e] = n
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	clients.Check(t, stored)
	var files int
	if err := db.QueryRow("SELECT count(*) FROM _forebay_imports").Scan(&files); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files were imported", files)
}
