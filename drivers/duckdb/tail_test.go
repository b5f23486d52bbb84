package duckdb_test

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
	"github.com/forebay/forebay/drivers/duckdb"
)

// manyRows adds rows to a table of an id, three texts and a time.
func manyRows(tb testing.TB, target *duckdb.Target, table string, n int) {
	tb.Helper()
	if err := target.Ensure(tb.Context(), driver.Table{ID: table, Columns: []datatype.Column{
		{Name: "id", Type: datatype.Int64}, {Name: "a", Type: datatype.String}, {Name: "b", Type: datatype.String}, {Name: "c", Type: datatype.String}, {Name: "at", Type: datatype.Timestamp},
	}}); err != nil {
		tb.Fatal(err)
	}
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO %s SELECT i, 'some text ' || i, 'another text', i %% 7, TIMESTAMPTZ '2026-11-29 12:00:00Z' FROM range(1, %d + 1) n(i)`, quote(table), n), "CHECKPOINT",
	} {
		if _, err := target.DB().ExecContext(tb.Context(), statement); err != nil {
			tb.Fatal(err)
		}
	}
}

func openIn(tb testing.TB, dir string) *duckdb.Target {
	tb.Helper()
	target, err := duckdb.Open(filepath.Join(dir, "events.duckdb"), duckdb.Options{Threads: 2, MemoryLimit: 512 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := target.Close(); err != nil {
			tb.Error(err)
		}
	})
	return target
}

// A tail ends with its context, and an import does not wait for it.
func TestTailEndsWithItsContext(t *testing.T) {
	target := openIn(t, t.TempDir())
	const rows = 1_000_000
	manyRows(t, target, "many", rows)
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

// The newest rows are last after others were deleted and the file was written again.
func TestTailAfterDeletes(t *testing.T) {
	target := openIn(t, t.TempDir())
	manyRows(t, target, "many", 300_000)
	execute(t, target.DB(), "DELETE FROM many WHERE id < 250000 OR id % 3 = 0")
	execute(t, target.DB(), "CHECKPOINT")
	tail, err := target.Tail(t.Context(), "many", 3)
	if err != nil || fmt.Sprintf("%s %s %s", tail.Rows[0][0], tail.Rows[1][0], tail.Rows[2][0]) != "299996 299998 299999" {
		t.Errorf("got %q, %v, want 299996 299998 299999, no error", tail.Rows, err)
	}
}

// Large cells are not returned. Fewer rows are returned, or none.
func TestTailIsBounded(t *testing.T) {
	target := openIn(t, t.TempDir())
	table := driver.Table{ID: `it's "odd"`, Columns: []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: "text", Type: datatype.String}}}
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
	manyRows(b, target, "many", 5_000_000)
	for b.Loop() {
		if tail, err := target.Tail(b.Context(), "many", 20); err != nil || len(tail.Rows) != 20 {
			b.Fatal(err)
		}
	}
}
