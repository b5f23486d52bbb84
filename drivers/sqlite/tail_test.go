package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/driverkit/sqltail"
	"github.com/forebay/forebay/drivers/sqlite"
)

// manyRows adds rows to a table of an id, three texts and a time.
func manyRows(tb testing.TB, target *sqlite.Target, path, table string, n int) {
	tb.Helper()
	if err := target.Ensure(tb.Context(), driver.Table{ID: table, Columns: []datatype.Column{
		{Name: "id", Type: datatype.Int64}, {Name: "a", Type: datatype.String}, {Name: "b", Type: datatype.String}, {Name: "c", Type: datatype.String}, {Name: "at", Type: datatype.Timestamp},
	}}); err != nil {
		tb.Fatal(err)
	}
	execute(tb, path, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO "%s" SELECT i, 'some text ' || i, 'another text', i %% 7, '2026-11-29T12:00:00.000000Z' FROM n`, n, table))
}

// A tail ends with its context, and an import does not wait for it.
func TestTailEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	target := open(t, path, sqlite.Options{})
	const rows = 300_000
	manyRows(t, target, path, "many", rows)
	begin := time.Now()
	if _, err := target.Tail(t.Context(), "many", rows); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begin)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := target.Tail(ctx, "many", rows)
		ended <- err
	}()
	other := driver.Table{ID: "other", Columns: datatype.UntypedColumns("a")}
	if err := target.Import(t.Context(), buffertest.NewFile("file-1", other, []string{"x"})); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the tail ended before the import that runs at the same time: %v", err)
	default:
	}
	cancel()
	begin = time.Now()
	if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(begin) > whole/2 {
		t.Errorf("after the end of the context: %v, %v later, and all rows take %v", err, time.Since(begin), whole)
	}
	if tail, err := target.Tail(t.Context(), "other", 5); err != nil || len(tail.Rows) != 1 || tail.Imported.IsZero() {
		t.Errorf("the next tail: %d rows, %v", len(tail.Rows), err)
	}
}

// Large cells are not read. Fewer rows are returned, or none.
func TestTailIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	target := open(t, path, sqlite.Options{})
	table := driver.Table{ID: `it's "odd"`, Columns: []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: "rowid", Type: datatype.String}}}
	for i, size := range []int{10, sqltail.MaxBytes, 20, 30} {
		f := buffertest.NewFile(fmt.Sprintf("file-%d", i), table, []string{fmt.Sprint(i), strings.Repeat("x", size)})
		if err := target.Import(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		tail, err := target.Tail(t.Context(), table.ID, 5)
		switch want := []int{1, 0, 1, 2}[i]; {
		case want == 0 && !errors.Is(err, driver.ErrTailTooLarge):
			t.Errorf("a last row that is too large: %d rows, %v", len(tail.Rows), err)
		case want > 0 && (err != nil || len(tail.Rows) != want || string(tail.Rows[want-1][0]) != fmt.Sprint(i)):
			t.Errorf("after row %d: %d rows, %v, want %d", i, len(tail.Rows), err, want)
		}
	}
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
	target, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer target.Close()
	manyRows(b, target, path, "many", 5_000_000)
	for b.Loop() {
		if tail, err := target.Tail(b.Context(), "many", 20); err != nil || len(tail.Rows) != 20 {
			b.Fatal(err)
		}
	}
}
