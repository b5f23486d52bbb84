package sqlite_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/cputime"
)

// The first import of a process into a table costs as much among thousands of tables as among ten. SQLite has no index of the names of tables, so a
// search of the schema for each of thousands of tables would take most of the time of their imports.
func TestImportAmongManyTables(t *testing.T) {
	if !cputime.Known {
		t.Skip("the test needs the CPU time of the process, which does not depend on other programs")
	}
	const few, many, files = 200, 5_000, 100
	cost := func(tables int) time.Duration {
		path := filepath.Join(t.TempDir(), "a.db")
		var sql strings.Builder
		for n := range tables {
			fmt.Fprintf(&sql, "CREATE TABLE t%d (c0 TEXT, c1 TEXT) STRICT;", n)
		}
		execute(t, path, "BEGIN;"+sql.String()+"COMMIT")
		target := open(t, path, sqlite.Options{})
		imports := func(from, to int) {
			var list []*driver.File
			for n := from; n < to; n++ {
				list = append(list, file(fmt.Sprint(n), driver.Table{ID: fmt.Sprint("t", n), Columns: columns(datatype.String, datatype.String)}, []string{"a", "b"}))
			}
			if err := target.ImportMany(t.Context(), list); err != nil {
				t.Fatal(err)
			}
		}
		imports(0, 1) // it reads the schema
		begin := cputime.Process()
		imports(1, files+1)
		return (cputime.Process() - begin) / files
	}
	a, b := cost(few), cost(many)
	t.Logf("a file used %s of CPU among %d tables and %s among %d", a, few, b, many)
	if b > 2*a {
		t.Errorf("a file used %s of CPU among %d tables, want at most twice the %s among %d", b, many, a, few)
	}
}

// Another program drops tables and creates them again, so that their places in the schema belong to others. The driver finds each table where it is.
func TestTablesThatMove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	table := func(id string) driver.Table { return driver.Table{ID: id, Columns: columns(datatype.String)} }
	files := 0
	imports := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			files++
			if err := target.Import(t.Context(), file(fmt.Sprint(files), table(id), []string{id})); err != nil {
				t.Errorf("import into %q: %v", id, err)
			}
		}
	}
	imports("a", "b", "c")
	execute(t, path, `DROP TABLE a; DROP TABLE b; CREATE TABLE b (c0 TEXT) STRICT; CREATE TABLE other (n INTEGER); CREATE TABLE a (c0 TEXT) STRICT; VACUUM`)
	imports("a", "b", "c", "d")
	execute(t, path, `DROP TABLE b; ALTER TABLE a RENAME TO b; DROP TABLE d; CREATE VIEW d AS SELECT * FROM c`)
	imports("a", "b", "c")
	for id, want := range map[string]int{"a": 1, "b": 2, "c": 3} {
		if got := len(rows(t, path, id)); got != want {
			t.Errorf("table %q has %d rows, want %d", id, got, want)
		}
	}
	for id, reason := range map[string]string{"d": "is a view", "C": "ignores the case of names"} {
		files++
		if err := target.Import(t.Context(), file(fmt.Sprint(files), table(id), []string{id})); !driver.IsPermanent(err) || !strings.Contains(err.Error(), reason) {
			t.Errorf("import into %q: %v, want a permanent error with %q", id, err, reason)
		}
	}
}
