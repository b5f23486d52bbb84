package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driverkit/sqltail"
	"github.com/forebay/forebay/internal/drivertest"
)

// A tail waits for a change of the table, and ends with its context.
func TestTailEndsWithItsContext(t *testing.T) {
	target := open(t, Options{})
	tbl := table("events", idColumn)
	mustImport(t, target, newFile("file-1", tbl, []string{"1"}))
	tx, err := server.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+target.table("events")); err != nil {
		t.Fatal(err)
	}
	drivertest.Retryable(t, "a tail during a change of the table", func() error { _, err := target.Tail(t.Context(), "events", 5); return err }())
	watch := server.Connect(t)
	for waits := false; !waits; {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := target.Tail(ctx, "events", 5)
			ended <- err
		}()
		for !waits && len(ended) == 0 { // it gives up after a second, and the next one is watched
			if err := watch.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`).Scan(&waits); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-ended; waits && !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %v", err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := drivertest.TailIDs(t, target, "events", 5); got != "1" {
		t.Errorf("after the change: %q", got)
	}
}

// While a tail has its lock, imports into the table continue.
func TestImportsPassATail(t *testing.T) {
	target := open(t, Options{})
	tbl := table("events", idColumn)
	mustImport(t, target, newFile("file-1", tbl, []string{"1"}))
	reading, err := server.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.tail(t.Context(), reading, "events", 5); err != nil { // its transaction stays open
		t.Fatal(err)
	}
	mustImport(t, target, newFile("file-2", tbl, []string{"2"}))
	if got := drivertest.TailIDs(t, target, "events", 5); got != "1 2" {
		t.Errorf("got %q, want \"1 2\"", got)
	}
}

// Large cells are not returned. Fewer rows are returned, or none.
func TestTailIsBounded(t *testing.T) {
	drivertest.TailIsBounded(t, open(t, Options{}), table(`it's "odd"`, idColumn, col("text", datatype.String)), sqltail.MaxBytes)
}

// The rows of the newest import are last in a table whose rows are replaced, in partitions, and after the deletion of the end of a table.
func TestTailOrder(t *testing.T) {
	target := open(t, Options{Keys: map[string][]string{"keyed": {"id"}}})
	keyed := table("keyed", idColumn)
	mustImport(t, target, newFile("file-1", keyed, []string{"1"}, []string{"2"}, []string{"3"}))
	mustImport(t, target, newFile("file-2", keyed, []string{"4"}))
	if got := drivertest.TailIDs(t, target, "keyed", 2); got != "3 4" {
		t.Errorf("keyed: %q", got)
	}
	exec(t, target, `CREATE TABLE parts (at timestamptz, id bigint) PARTITION BY LIST (id)`)
	for i := range tailParts + 5 {
		exec(t, target, fmt.Sprintf(`CREATE TABLE parts_%d PARTITION OF parts FOR VALUES IN (%[1]d)`, i))
	}
	last := fmt.Sprint(tailParts + 4)
	parts := table("parts", col("at", datatype.Timestamp), idColumn)
	const first, second = "2026-11-29T12:00:00.000000Z", "2026-11-29T11:00:00.000000Z"
	mustImport(t, target, newFile("file-3", parts, []string{first, last}, []string{first, "0"}))
	mustImport(t, target, newFile("file-4", parts, []string{second, "50"}))
	if got := drivertest.TailIDs(t, target, "parts", 5); got != first+" "+second {
		t.Errorf("partitions: %q", got)
	}
	many := table("many", idColumn)
	mustEnsure(t, target, many)
	exec(t, target, "INSERT INTO many SELECT generate_series(1, 200000); DELETE FROM many WHERE id > 100000")
	if got := drivertest.TailIDs(t, target, "many", 2); got != "99999 100000" {
		t.Errorf("after deletes: %q", got)
	}
}

// Foreign tables show their rows, and missing tables are distinguished from unreadable tables.
func TestTailOfOtherTables(t *testing.T) {
	target := open(t, Options{})
	exec(t, target, `CREATE TABLE plain (id serial, at timestamptz, day date, size float8, tags text[], raw bytea);
		INSERT INTO plain (at, day, size, tags, raw) VALUES ('infinity', '2026-11-29', 1e100, '{a,b}', decode(repeat('ff', 60), 'hex')), (NULL, NULL, 'NaN', '{}', '');
		CREATE VIEW seen AS SELECT 1`)
	exec(t, target, `ALTER DATABASE `+server.Connect(t).Config().Database+` SET datestyle = 'German'`)
	t.Cleanup(func() { exec(t, target, `ALTER DATABASE `+server.Connect(t).Config().Database+` RESET datestyle`) })
	tail, err := reopen(t, target.options).Tail(t.Context(), "plain", 5)
	raw := strings.Repeat("////", 20)
	if err != nil || fmt.Sprintf("%q", tail.Rows) != `[["1" "infinity" "2026-11-29" "1e+100" "{a,b}" "`+raw+`"] ["2" "" "" "NaN" "{}" ""]]` || tail.Rows[1][1] != nil || tail.Rows[1][5] == nil || !tail.Imported.IsZero() {
		t.Errorf("got %q, %v, want the two rows with null, infinity and NaN as texts, and no time", tail.Rows, err)
	}
	if _, err := target.Tail(t.Context(), "absent", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	drivertest.Permanent(t, "a view", func() error { _, err := target.Tail(t.Context(), "seen", 5); return err }(), "is not a table")
	drivertest.Permanent(t, "our own table", func() error { _, err := target.Tail(t.Context(), imports, 5); return err }(), "our own tables")
	tbl := table("events", idColumn)
	begin := time.Now().Add(-time.Minute)
	mustImport(t, target, newFile("file-1", tbl, []string{"1"}))
	if tail, err := target.Tail(t.Context(), "events", 5); err != nil || tail.Imported.Before(begin) {
		t.Errorf("imported at %v, %v", tail.Imported, err)
	}
	exec(t, target, "INSERT INTO events VALUES (2)")
	if tail, err := target.Tail(t.Context(), "events", 5); err != nil || !tail.Imported.IsZero() || len(tail.Rows) != 2 {
		t.Errorf("a row of others was imported at %v, %v", tail.Imported, err)
	}
}

// BenchmarkTail reads 20 rows of 5 million.
func BenchmarkTail(b *testing.B) {
	target := open(b, Options{})
	mustEnsure(b, target, drivertest.Many())
	exec(b, target, `INSERT INTO many SELECT i, 'some text ' || i, 'another text', i % 7, '2026-11-29 12:00:00Z' FROM generate_series(1, 5000000) i`)
	drivertest.BenchmarkTail(b, target)
}
