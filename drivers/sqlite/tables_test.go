package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/drivertest"
)

func needProgram(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("the program sqlite3 is not installed")
	}
}

func TestTableNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	table := func(id string) driver.Table { return driver.Table{ID: id, Columns: columns(datatype.String)} }
	if err := target.Ensure(t.Context(), table("Events")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"events", "sqlite_x", "SQLITE_x", "_forebay_imports", "a\x00b"} {
		if err := target.Ensure(t.Context(), table(id)); !driver.IsPermanent(err) {
			t.Errorf("table %q: %v, want a permanent error", id, err)
		}
	}
}

// A table of another program may be used if its columns have the classes of the types.
func TestTableOfSomebodyElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	execute(t, path, `CREATE TABLE t (c0 TEXT, c1 INTEGER, twice INTEGER AS (c1 * 2)) STRICT`)
	table := driver.Table{ID: "t", Columns: columns(datatype.Timestamp, datatype.Int64)}
	drivertest.Import(t, target, file("f", table, []string{"2026-11-22T00:00:00.000000Z", "7"}))
	var twice int
	if err := database(t, path).QueryRow("SELECT twice FROM t").Scan(&twice); err != nil || twice != 14 {
		t.Errorf("got %d, %v, want no error and twice == 14", twice, err)
	}
	table.Columns[1].Type = datatype.Float64
	var schema *driver.SchemaError
	if err := target.Ensure(t.Context(), table); !errors.As(err, &schema) || schema.Got[1].Type != "INTEGER" {
		t.Errorf("Ensure with another class = %v", err)
	} else if strings.Count(err.Error(), "table \"t\"") != 1 {
		t.Errorf("%q does not name the table once", err)
	}
}

// The columns of a table count as another program has altered them.
func TestAlteredTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	table := driver.Table{ID: "t", Columns: columns(datatype.String, datatype.Bool), Extend: true}
	if err := target.Extend(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	execute(t, path, `ALTER TABLE t DROP COLUMN c1; ALTER TABLE t ADD COLUMN own TEXT; ALTER TABLE t ADD COLUMN must TEXT NOT NULL DEFAULT 1`)
	drivertest.Import(t, target, file("f", table, []string{"a", "true"}))
	if got, want := rows(t, path, "t"), [][]string{{"a", buffertest.Null, buffertest.Null, "true"}}; !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWideTable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	table := driver.Table{ID: "t", Columns: columns(slices.Repeat([]datatype.Type{datatype.Int64}, 1500)...)}
	var list [][]string
	for i := range 100 { // two statements and a half: 32,766 variables are 21 rows
		list = append(list, slices.Repeat([]string{fmt.Sprint(i)}, 1500))
	}
	drivertest.Import(t, target, file("f", table, list...))
	if got := rows(t, path, "t"); !slices.EqualFunc(got, list, slices.Equal[[]string]) {
		t.Errorf("got %d rows, want %d", len(got), len(list))
	}
}

func TestCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{MaxWAL: 1, KeepIDs: 48 * time.Hour})
	table := driver.Table{ID: "t", Columns: columns(datatype.String)}
	drivertest.Import(t, target, file("f", table, []string{"a"}))
	var old strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&old, "INSERT INTO _forebay_imports VALUES ('old-%d', 't', 1, '%s');", i, time.Now().Add(-49*time.Hour).UTC().Format(time.RFC3339))
	}
	execute(t, path, "BEGIN; UPDATE _forebay_imports SET rowid = 1000000; "+old.String()+" UPDATE _forebay_imports SET rowid = rowid - 999999 WHERE rowid > 1000000; COMMIT")
	for range 2 {
		drivertest.Compact(t, target, table)
	}
	for id, want := range map[string]int64{"f": 1, "old-0": 0, "old-2499": 0} {
		if n, err := target.CountFile(t.Context(), table, id); n != want || err != nil {
			t.Errorf("file %s: %d rows, %v, want %d", id, n, err, want)
		}
	}
	if wal, err := os.Stat(path + "-wal"); err != nil || wal.Size() != 0 {
		t.Errorf("the log has %d bytes, %v", wal.Size(), err)
	}
	// A reader keeps the log, which is no error.
	db := database(t, path)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	drivertest.Import(t, target, file("g", table, []string{"a"}))
	if err := target.Compact(t.Context(), table); err != nil {
		t.Errorf("Compact beside a reader: %v", err)
	}
	execute(t, path, "DROP TABLE t")
	if n, err := target.CountFile(t.Context(), table, "f"); n != 0 || err != nil {
		t.Errorf("a dropped table has %d rows, %v", n, err)
	}
}

// A table that leaves out rows without an error, and a view, hold the file.
func TestTablesThatStoreLess(t *testing.T) {
	for name, statements := range map[string]string{
		"trigger":  `CREATE TABLE t (c0 TEXT) STRICT; CREATE TRIGGER x BEFORE INSERT ON t WHEN new.c0 = 'b' BEGIN SELECT RAISE(IGNORE); END`,
		"conflict": `CREATE TABLE t (c0 TEXT UNIQUE ON CONFLICT IGNORE) STRICT`,
		"view": `CREATE TABLE u (c0 TEXT) STRICT; CREATE VIEW t AS SELECT c0 FROM u;
			CREATE TRIGGER x INSTEAD OF INSERT ON t BEGIN INSERT INTO u VALUES (new.c0); END`,
	} {
		path := filepath.Join(t.TempDir(), "a.db")
		target := open(t, path, sqlite.Options{})
		execute(t, path, statements)
		table := driver.Table{ID: "t", Columns: columns(datatype.String)}
		if err := target.Import(t.Context(), file("f", table, []string{"a"}, []string{"a"}, []string{"b"})); !driver.IsPermanent(err) {
			t.Errorf("%s: Import = %v, want a permanent error", name, err)
		}
		var stored int
		if err := database(t, path).QueryRow("SELECT count(*) FROM t").Scan(&stored); err != nil || stored != 0 {
			t.Errorf("%s: the table has %d rows, %v", name, stored, err)
		}
	}
}

// SQLite continues to write to a file that no longer has a name.
func TestLostDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	drivertest.LostDatabase(t, path, tables(t, path, open(t, path, sqlite.Options{})))
}

// If the driver's own tables are dropped, the next import creates them again. The table of types is read from the declarations.
func TestOwnTablesAreDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{})
	table := driver.Table{ID: "t", Columns: columns(datatype.Timestamp)}
	row := []string{"2026-11-22T00:00:00.000000Z"}
	for i, own := range []string{"imports", "tables"} {
		drivertest.Import(t, target, file(fmt.Sprint("f", i), table, row))
		execute(t, path, "DROP TABLE _forebay_"+own)
		if _, err := target.CountFile(t.Context(), table, "f0"); own == "imports" && (err == nil || !strings.HasPrefix(err.Error(), "sqlite: count file f0: ")) {
			t.Errorf("CountFile without its table = %v", err)
		}
	}
	drivertest.Import(t, target, file("g", table, row))
	var stored, ids int
	if err := database(t, path).QueryRow("SELECT count(*), (SELECT count(*) FROM _forebay_imports) FROM t").Scan(&stored, &ids); err != nil || stored != 3 || ids != 2 {
		t.Errorf("the table has %d rows of 3, and %d of 2 ids are known: %v", stored, ids, err)
	}
}

// A new table has the indexes of whose columns it has all, and a query uses them. A table that exists keeps its own.
func TestIndexes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	spans := driver.Table{ID: "sp'a\"ns", Columns: []datatype.Column{{Name: "TraceId", Type: datatype.String}, {Name: "at", Type: datatype.Timestamp}}}
	others := driver.Table{ID: "others", Columns: []datatype.Column{{Name: "at", Type: datatype.Timestamp}}}
	target := open(t, path, sqlite.Options{Indexes: [][]string{{"TraceId", "at"}, {"at"}}})
	for range 2 {
		for _, table := range []driver.Table{spans, others} {
			if err := target.Ensure(t.Context(), table); err != nil {
				t.Fatal(err)
			}
		}
	}
	db := database(t, path)
	for query, want := range map[string]string{
		`SELECT * FROM "sp'a""ns" WHERE TraceId = 'x' ORDER BY at`: `SEARCH sp'a"ns USING COVERING INDEX sp'a"ns_TraceId_at (TraceId=?)`,
		`SELECT * FROM "sp'a""ns" WHERE at > 'x'`:                  `SEARCH sp'a"ns USING INDEX sp'a"ns_at (at>?)`,
		`SELECT * FROM others WHERE at > 'x'`:                      `SEARCH others USING COVERING INDEX others_at (at>?)`,
	} {
		var id, parent, unused int
		var plan string
		if err := db.QueryRow("EXPLAIN QUERY PLAN "+query).Scan(&id, &parent, &unused, &plan); err != nil || plan != want {
			t.Errorf("%s: plan %q, %v, want %q", query, plan, err, want)
		}
	}
	if err := (sqlite.Options{Indexes: [][]string{{}}}).Validate(); err == nil || !strings.Contains(err.Error(), "without a column") {
		t.Errorf("an index without a column: %v", err)
	}
}
