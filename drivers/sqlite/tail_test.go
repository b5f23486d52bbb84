package sqlite_test

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
	"github.com/forebay/forebay/drivers/sqlite"
	"github.com/forebay/forebay/internal/drivertest"
)

// manyRows adds rows to the table many.
func manyRows(tb testing.TB, target *sqlite.Target, path string, n int) {
	tb.Helper()
	if err := target.Ensure(tb.Context(), drivertest.Many()); err != nil {
		tb.Fatal(err)
	}
	execute(tb, path, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO many SELECT i, 'some text ' || i, 'another text', i %% 7, '2026-11-29T12:00:00.000000Z' FROM n`, n))
}

// A tail ends with its context, and an import does not wait for it.
func TestTailEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	target := open(t, path, sqlite.Options{})
	const rows = 300_000
	manyRows(t, target, path, rows)
	drivertest.TailEnds(t, target, rows)
}

// Large cells are not read. Fewer rows are returned, or none.
func TestTailIsBounded(t *testing.T) {
	table := driver.Table{ID: `it's "odd"`, Columns: []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: "rowid", Type: datatype.String}}}
	drivertest.TailIsBounded(t, open(t, filepath.Join(t.TempDir(), "events.db"), sqlite.Options{}), table, sqltail.MaxBytes)
}

// Foreign tables show their rows, or the error says why not.
func TestTailOfOtherTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	target := open(t, path, sqlite.Options{})
	execute(t, path, `CREATE TABLE plain (a, b BLOB, c DATE, d REAL); INSERT INTO plain VALUES (1, x'ff', '2026-11-29', 1e100), ('', '', NULL, 2);
		CREATE TABLE keyed (a TEXT PRIMARY KEY) WITHOUT ROWID; CREATE TABLE named (rowid, oid, _rowid_); CREATE VIEW seen AS SELECT 1`)
	tail, err := target.Tail(t.Context(), "plain", 5)
	if err != nil || fmt.Sprintf("%q", tail.Rows) != `[["1" "/w==" "2026-11-29" "1e+100"] ["" "" "" "2"]]` || tail.Rows[1][2] != nil || !tail.Imported.IsZero() {
		t.Errorf("got %q, %v, want two rows with null as an empty text, no time, no error", tail.Rows, err)
	}
	for table, want := range map[string]string{"keyed": "WITHOUT ROWID", "named": "rename one", "seen": "is a view", "sqlite_schema": "keeps for itself", "PLAIN": `table "plain"`} {
		if _, err := target.Tail(t.Context(), table, 5); !driver.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", table, err, want)
		}
	}
	if _, err := target.Tail(t.Context(), "absent", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// BenchmarkTail reads 20 rows of 5 million.
func BenchmarkTail(b *testing.B) {
	path := filepath.Join(b.TempDir(), "events.db")
	target := open(b, path, sqlite.Options{})
	manyRows(b, target, path, 5_000_000)
	drivertest.BenchmarkTail(b, target)
}
