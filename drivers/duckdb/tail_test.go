package duckdb_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqltail"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/drivertest"
)

// manyRows adds rows to the table many.
func manyRows(tb testing.TB, target *duckdb.Target, n int) {
	tb.Helper()
	if err := target.Ensure(tb.Context(), drivertest.Many()); err != nil {
		tb.Fatal(err)
	}
	execute(tb, target.DB(), fmt.Sprintf(`INSERT INTO many SELECT i, 'some text ' || i, 'another text', i %% 7, TIMESTAMPTZ '2026-11-29 12:00:00Z' FROM range(1, %d + 1) n(i); CHECKPOINT`, n))
}

func openIn(tb testing.TB, dir string) *duckdb.Target {
	tb.Helper()
	return open(tb, filepath.Join(dir, "events.duckdb"), duckdb.Options{Threads: 2, MemoryLimit: 512 << 20})
}

// A tail ends with its context, and an import does not wait for it.
func TestTailEndsWithItsContext(t *testing.T) {
	target := openIn(t, t.TempDir())
	const rows = 1_000_000
	manyRows(t, target, rows)
	drivertest.TailEnds(t, target, rows)
}

// The newest rows are last after others were deleted and the file was written again.
func TestTailAfterDeletes(t *testing.T) {
	target := openIn(t, t.TempDir())
	manyRows(t, target, 300_000)
	execute(t, target.DB(), "DELETE FROM many WHERE id < 250000 OR id % 3 = 0")
	execute(t, target.DB(), "CHECKPOINT")
	tail, err := target.Tail(t.Context(), "many", 3)
	if err != nil || fmt.Sprintf("%s %s %s", tail.Rows[0][0], tail.Rows[1][0], tail.Rows[2][0]) != "299996 299998 299999" {
		t.Errorf("got %q, %v, want 299996 299998 299999, no error", tail.Rows, err)
	}
}

// Large cells are not returned. Fewer rows are returned, or none.
func TestTailIsBounded(t *testing.T) {
	table := driver.Table{ID: `it's "odd"`, Columns: []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: "text", Type: datatype.String}}}
	drivertest.TailIsBounded(t, openIn(t, t.TempDir()), table, sqltail.MaxBytes)
}

// Foreign tables show their rows, or the error says why not.
func TestTailOfOtherTables(t *testing.T) {
	target := openIn(t, t.TempDir())
	for _, statement := range []string{
		`CREATE TABLE plain (a INTEGER[], b DECIMAL(9,2), c DOUBLE, d TIME)`, `INSERT INTO plain VALUES ([1, 2], 1.5, 1e100, NULL)`,
		`CREATE TABLE named (RowID INTEGER)`, `CREATE VIEW seen AS SELECT 1`,
	} {
		execute(t, target.DB(), statement)
	}
	tail, err := target.Tail(t.Context(), "plain", 5)
	if err != nil || fmt.Sprintf("%q", tail.Rows) != `[["[1, 2]" "1.50" "1e+100" ""]]` || tail.Rows[0][3] != nil || !tail.Imported.IsZero() {
		t.Errorf("got %q, %v, want one row of a list, a decimal, a number and null, no time, no error", tail.Rows, err)
	}
	for table, want := range map[string]string{"named": "rename it", "seen": "is a view", "_forebay_imports": "keeps for itself", "PLAIN": `table "plain"`} {
		if _, err := target.Tail(t.Context(), table, 5); !driver.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", table, err, want)
		}
	}
	if _, err := target.Tail(t.Context(), "absent", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, query := target.Query(driver.Table{ID: "named", Columns: datatype.UntypedColumns("RowID")}); !strings.HasSuffix(query, " ORDER BY ALL DESC LIMIT 20") {
		t.Errorf("with a column rowid: %s", query)
	}
}

// BenchmarkTail reads 20 rows of 5 million.
func BenchmarkTail(b *testing.B) {
	target := openIn(b, b.TempDir())
	manyRows(b, target, 5_000_000)
	drivertest.BenchmarkTail(b, target)
}
