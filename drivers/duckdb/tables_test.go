package duckdb_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/drivertest"
)

func TestTableNames(t *testing.T) {
	target := newTarget(t)
	table := func(id string) driver.Table { return driver.Table{ID: id, Columns: columns(datatype.String)} }
	execute(t, target.DB(), `CREATE VIEW v AS SELECT 'x' AS c0`)
	for _, id := range []string{"Events", `it's "one"`, "%d"} {
		drivertest.Import(t, target, file("f-"+id[:1], table(id), []string{"a"}))
		expectRows(t, target, id, []string{"a"})
	}
	for _, id := range []string{"events", "v", "_forebay_imports", "_FOREBAY_x", "a\x00b", "\xff"} {
		if err := target.Ensure(t.Context(), table(id)); !driver.IsPermanent(err) {
			t.Errorf("table %q: %v, want a permanent error", id, err)
		}
	}
}

// A table of another program may be used if its columns hold the types. DuckDB fills columns that the file lacks.
func TestTableOfSomebodyElse(t *testing.T) {
	target := newTarget(t)
	execute(t, target.DB(), `CREATE TABLE t ("at" TIMESTAMP WITH TIME ZONE, n DECIMAL(21,2), price DECIMAL(30,2), tag VARCHAR DEFAULT 'new')`)
	table := driver.Table{ID: "t", Extend: true, Columns: []datatype.Column{
		{Name: "price", Type: datatype.Decimal(6, 2)}, {Name: "at", Type: datatype.Timestamp}, {Name: "N", Type: datatype.Int64},
	}}
	drivertest.Import(t, target, file("f", table, []string{"-1234.50", "2026-11-22T00:00:00.000000Z", "9223372036854775807"}))
	expectRows(t, target, "t", []string{"2026-11-22T00:00:00.000000Z", "9223372036854775807.00", "-1234.50", "new"})
	table.Columns[0].Type = datatype.Float64
	var schema *driver.SchemaError
	if err := target.Ensure(t.Context(), table); !errors.As(err, &schema) || strings.Count(err.Error(), `table "t"`) != 1 {
		t.Errorf("Ensure with another type = %v, want a *driver.SchemaError that names the table once", err)
	}
	for _, definition := range []string{"c0 INTEGER", "c0 TIMESTAMP", "c0 FLOAT", "c0 ENUM ('a')", "c0 BIGINT[]"} {
		execute(t, target.DB(), "DROP TABLE IF EXISTS u; CREATE TABLE u ("+definition+")")
		for _, typ := range []datatype.Type{datatype.String, datatype.Int64, datatype.Timestamp, datatype.Float64} {
			if err := target.Ensure(t.Context(), driver.Table{ID: "u", Columns: columns(typ)}); !errors.As(err, &schema) {
				t.Errorf("%s for %s: got %v, want a *driver.SchemaError", definition, typ, err)
			}
		}
	}
}

// An import is repeated if its table is altered meanwhile.
func TestAlteredDuringImport(t *testing.T) {
	target := newTarget(t)
	table := driver.Table{ID: "t", Extend: true, Columns: columns(datatype.String, datatype.Bool)}
	if err := target.Extend(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	f := file("f", table, []string{"a", "true"})
	open, altered := f.OpenSlice, false
	f.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
		if !altered {
			altered = true
			execute(t, target.DB(), "ALTER TABLE t DROP COLUMN c1")
			execute(t, target.DB(), "ALTER TABLE t ADD COLUMN own VARCHAR")
		}
		return open(ctx, obj)
	}
	drivertest.Import(t, target, f)
	expectRows(t, target, "t", []string{"a", buffertest.Null, "true"})
}

func TestCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.duckdb")
	target := open(t, path, duckdb.Options{KeepIDs: 48 * time.Hour})
	table := driver.Table{ID: "t", Columns: columns(datatype.String)}
	var rows [][]string
	for range 50_000 {
		rows = append(rows, []string{strings.Repeat("x", 100)})
	}
	drivertest.Import(t, target, file("f", table, rows...))
	execute(t, target.DB(), "INSERT INTO _forebay_imports SELECT 'old-' || i, 't', 1, now() - INTERVAL 49 HOURS FROM range(2500) r(i)")
	if log, err := os.Stat(path + ".wal"); err != nil || log.Size() < 4<<20 {
		t.Fatalf("the log has %v bytes: the test needs more, %v", log, err)
	}
	// A writer keeps the log, which is no error.
	tx, err := target.DB().Begin()
	if err == nil {
		_, err = tx.Exec("CREATE TABLE other (x INTEGER)")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Compact(t.Context(), table); err != nil {
		t.Errorf("Compact beside a writer: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	drivertest.Compact(t, target, table)
	if log, err := os.Stat(path + ".wal"); err == nil && log.Size() > 1<<20 {
		t.Errorf("the log has %d bytes", log.Size())
	}
	for id, want := range map[string]int64{"f": 50_000, "old-0": 0, "old-2499": 0} {
		if n, err := target.CountFile(t.Context(), table, id); n != want || err != nil {
			t.Errorf("file %s: %d rows, %v, want %d", id, n, err, want)
		}
	}
	execute(t, target.DB(), "DROP TABLE t")
	if n, err := target.CountFile(t.Context(), table, "f"); n != 0 || err != nil {
		t.Errorf("a dropped table has %d rows, %v", n, err)
	}
}

// DuckDB continues to write to a file that no longer has a name.
func TestLostDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.duckdb")
	drivertest.LostDatabase(t, path, tables(t, open(t, path, duckdb.Options{})))
}

// If the driver's own tables are dropped, the next import creates them again.
func TestOwnTablesAreDropped(t *testing.T) {
	target := newTarget(t)
	table := driver.Table{ID: "t", Columns: columns(datatype.Timestamp)}
	row := []string{"2026-11-22T00:00:00.000000Z"}
	for _, own := range []string{"imports", "tables"} {
		drivertest.Import(t, target, file("f"+own, table, row))
		execute(t, target.DB(), "DROP TABLE _forebay_"+own)
	}
	drivertest.Import(t, target, file("g", table, row))
	expectRows(t, target, "t", row, row, row)
}

// Options hold for the queries of the same process.
func TestOptions(t *testing.T) {
	target := open(t, filepath.Join(t.TempDir(), "a.duckdb"), duckdb.Options{MemoryLimit: 64 << 20, Threads: 3})
	var memory, threads string
	err := target.DB().QueryRow("SELECT current_setting('memory_limit')::VARCHAR, current_setting('threads')::VARCHAR").Scan(&memory, &threads)
	if err != nil || memory != "64.0 MiB" || threads != "3" {
		t.Errorf("memory %s, threads %s, %v", memory, threads, err)
	}
}
