package duckdb_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/internal/proctest"
)

// sharedRows reads a table through a shared target.
func sharedRows(t *testing.T, target *duckdb.Target, table string) (all [][]string) {
	t.Helper()
	if err := target.Use(func(db *sql.DB) error {
		all = rows(t, db, table)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSharedConformance(t *testing.T) {
	var path string
	var target *duckdb.Target
	reopen := func(t *testing.T) driver.Target {
		target = open(t, path, duckdb.Options{Threads: 1, Shared: true})
		return target
	}
	buffertest.Target(t, buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			path = filepath.Join(t.TempDir(), "a.duckdb")
			return reopen(t)
		},
		Reopen: reopen,
		Rows:   func(t *testing.T, table string) [][]string { return sharedRows(t, target, table) },
		Typed:  true, TextOnly: true,
	})
}

// A shared target keeps the file from other processes during a call only, and waits in turn for theirs.
func TestSharedProcesses(t *testing.T) {
	table := driver.Table{ID: "t", Columns: columns(datatype.Int64)}
	if path, ok := proctest.Child(); ok {
		target := open(t, path, duckdb.Options{Shared: true})
		drivertest.Import(t, target, file("other", table, []string{"2"}))
		_ = target.Use(func(*sql.DB) error {
			fmt.Println("open")
			_, err := os.Stdin.Read(make([]byte, 1))
			return err
		})
		fmt.Println("closed")
		_, _ = os.Stdin.Read(make([]byte, 1))
		t.FailNow()
	}
	if testing.Short() {
		t.Skip("it starts a process")
	}
	path := filepath.Join(t.TempDir(), "a.duckdb")
	target := open(t, path, duckdb.Options{Shared: true})
	if target.DB() != nil {
		t.Error("a shared target has a database between calls")
	}
	if name := target.Alone("t"); name != open(t, path, duckdb.Options{Shared: true}).Alone("u") || name == "" {
		t.Errorf("the lease is for %q", name)
	}
	drivertest.Import(t, target, file("first", table, []string{"1"}))
	p := proctest.Start(t, t.Name(), path)
	defer p.Kill()
	if line := p.Line(); line != "open" {
		t.Fatalf("the other process says %q", line)
	}
	third := file("third", table, []string{"3"})
	if err := target.Import(t.Context(), third); !errors.Is(err, duckdb.ErrLocked) || driver.IsPermanent(err) {
		t.Errorf("Import while another process has the file open = %v, want ErrLocked", err)
	}
	if err := target.Use(func(*sql.DB) error { return nil }); !errors.Is(err, duckdb.ErrLocked) {
		t.Errorf("Use while another process has the file open = %v, want ErrLocked", err)
	}
	if _, err := p.In.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if line := p.Line(); line != "closed" {
		t.Fatalf("the other process says %q", line)
	}
	if err := target.Import(t.Context(), third); err != nil { // the other process still runs
		t.Fatal(err)
	}
	if got := fmt.Sprint(sharedRows(t, target, "t")); got != "[[1] [2] [3]]" {
		t.Errorf("the table has %s", got)
	}
}
