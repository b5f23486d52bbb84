package mysql

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

var idColumn = col("id", datatype.Int64)

// An attempt whose client is gone holds the id until the server notices. The next one waits, gives up, and succeeds when the first ends.
func TestAbandonedAttempt(t *testing.T) {
	target := open(t, Options{LockTimeout: time.Second})
	tbl := table("events", idColumn)
	mustEnsure(t, target, tbl)
	f := newFile("file-1", tbl, []string{"1"})
	first, err := server.Connect(t, target.database).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var id int64
	if err := first.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	if _, err := first.ExecContext(t.Context(), "BEGIN; INSERT INTO _forebay_imports VALUES ('file-1', 'events', 1, NOW())"); err != nil {
		t.Fatal(err)
	}
	err = target.Import(t.Context(), f)
	if drivertest.Retryable(t, "the second attempt", err); number(err) != lockWaitTimeout {
		t.Errorf("got %v, want a lock time-out", err)
	}
	if _, err := target.Void(t.Context(), tbl, f.ID); number(err) != lockWaitTimeout {
		t.Errorf("Void = %v, want a lock time-out", err)
	}
	patient := reopen(t, target.database, Options{LockTimeout: time.Minute})
	done := make(chan error, 1)
	go func() { done <- patient.Import(context.Background(), f) }()
	// INNODB_TRX would not change while it is asked more often than ten times a second.
	server.Wait(t, "", "SELECT VARIABLE_VALUE > 0 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'")
	server.Exec(t, "", fmt.Sprintf("KILL %d", id)) // as the server does for a process that is killed
	if err := <-done; err != nil {
		t.Errorf("the attempt that waited: %v", err)
	}
	mustImport(t, target, f)
	expectRows(t, target, "events", []string{"1"})
}

// Several engines import the same files and others into one table, which they create and extend.
func TestEnginesTogether(t *testing.T) {
	database := server.Database(t)
	drivertest.EnginesTogether(t, func(n int) driver.Target { return reopen(t, database, Options{InsertOnly: n%2 == 0}) },
		func(table string) [][]string { return readTable(t, database, table) })
}

// The server is killed while it imports, and returns.
func TestServerIsKilled(t *testing.T) {
	drivertest.ServerIsKilled(t, tables(t, open(t, Options{})), &server)
}

// A change of the table by another session waits until an import has ended, or the import waits for the change and then sees it.
func TestTypeChangesDuringImport(t *testing.T) {
	target := open(t, Options{})
	tbl := table("events", idColumn)
	mustEnsure(t, target, tbl)
	h := drivertest.Hold("file-1", tbl)
	done := make(chan error, 1)
	go func() { done <- target.Import(context.Background(), h.File) }()
	<-h.Reading
	altered := make(chan error, 1)
	db := server.Connect(t, target.database)
	go func() {
		_, err := db.Exec("ALTER TABLE events MODIFY id double")
		altered <- err
	}()
	server.Wait(t, "", "SELECT COUNT(*) > 0 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock'")
	close(h.Release)
	if err := errors.Join(<-done, <-altered); err != nil {
		t.Fatal(err)
	}
	expectRows(t, target, "events", h.Rows...)
	var schema *driver.SchemaError
	if err := target.Import(t.Context(), newFile("file-2", tbl, []string{"1"})); !errors.As(err, &schema) || schema.Got[0].Type != datatype.Float64 {
		t.Errorf("Import = %v, want a *driver.SchemaError with the new type", err)
	}
	exec(t, target, "DROP TABLE events")
	mustImport(t, target, newFile("file-3", tbl, []string{"3"}))
	expectRows(t, target, "events", []string{"3"})
}

func TestUpsert(t *testing.T) {
	target := open(t, Options{Keys: map[string][]string{"users": {"id", "part"}, "pairs": {"a", "b"}}})
	users := table("users", required(col("part", datatype.String)), required(idColumn), col("v", datatype.String))
	read := func() (all []string) {
		for _, row := range readTable(t, target.database, "users") {
			all = append(all, row[0]+row[1]+row[2])
		}
		return all
	}
	expect := func(want ...string) {
		t.Helper()
		if got := read(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	const null = buffertest.Null
	one := newFile("file-1", users, []string{"a", "1", "glad"}, []string{"a", "2", null}, []string{"a", "1", null}, []string{"A", "1", "glad"},
		[]string{"a ", "1", "space"}, []string{"a", "1", `so "so"`})
	mustImport(t, target, one)
	expect("A1glad", `a1so "so"`, "a 1space", "a2"+null) // in the order of the key. Names that differ in case or in spaces are different keys
	two := newFile("file-2", users, []string{"A", "1", null}, []string{"a", "2", "glad"}, []string{"c", "3", "glad"})
	mustImport(t, target, two)
	mustImport(t, target, one) // imported already, so newer rows stay
	expect("A1"+null, `a1so "so"`, "a 1space", "a2glad", "c3glad")
	if n, err := target.CountFile(t.Context(), users, "file-1"); err != nil || n != 6 {
		t.Errorf("CountFile = %d, %v, want the 6 rows that were written", n, err)
	}
	pairs := table("pairs", required(col("a", datatype.Int64)), required(col("b", datatype.Int64)))
	mustImport(t, target, newFile("file-3", pairs, []string{"1", "1"}, []string{"1", "2"}, []string{"1", "1"}))
	mustImport(t, target, newFile("file-4", pairs, []string{"1", "2"}, []string{"1", "3"}))
	expectRows(t, target, "pairs", []string{"1", "1"}, []string{"1", "2"}, []string{"1", "3"})

	expectRefused(t, target.Import(t.Context(), newFile("file-5", users, []string{"d", "1", "x"}, []string{"d", null, "glad"})), driver.RowError{
		Row: 1, Column: "id", Reason: "1048", Message: "Column 'id' cannot be null",
	})
	users.Columns = users.Columns[1:]
	drivertest.Permanent(t, "a mapping without its key", target.Ensure(t.Context(), users), `"part"`)

	target = open(t, Options{Keys: map[string][]string{"events": {"id"}}})
	f := newFile("file-1", table("events", idColumn), []string{"1"})
	exec(t, target, "CREATE TABLE events (id bigint)")
	drivertest.Permanent(t, "a table without the key", target.Import(t.Context(), f), "no primary key")
	exec(t, target, "ALTER TABLE events ADD PRIMARY KEY (id), ADD other int NULL DEFAULT 5 UNIQUE")
	drivertest.Permanent(t, "a table with another unique key", target.Import(t.Context(), f), `"other"`)
}

// A definition with fewer columns updates only its own in the row with the key.
func TestUpsertKeepsOtherColumns(t *testing.T) {
	target := open(t, Options{Keys: map[string][]string{"users": {"id"}}})
	name, total := col("name", datatype.String), col("total", datatype.Int64)
	for id, f := range map[string]struct {
		columns []datatype.Column
		row     []string
	}{"file-1": {[]datatype.Column{required(idColumn), name}, []string{"1", "a"}}, "file-2": {[]datatype.Column{required(idColumn), total}, []string{"1", "7"}}} {
		tbl := table("users", f.columns...)
		tbl.Extend = true
		mustImport(t, target, newFile(id, tbl, f.row))
	}
	got := readTable(t, target.database, "users")
	if len(got) != 1 || len(got[0]) != 3 || got[0][1]+got[0][2] != "a7" && got[0][1]+got[0][2] != "7a" {
		t.Errorf("got %q, want one row with a and 7", got)
	}
}

// Old ids are forgotten, in batches, and once an hour.
func TestCompact(t *testing.T) {
	target := open(t, Options{KeepIDs: minKeepIDs})
	drivertest.Compact(t, target, table("events", idColumn)) // nothing is there
	target.cleaned.Store(0)
	const n = 2*removeBatch + 1
	drivertest.ForgetsIDs(t, tables(t, target), imports,
		fmt.Sprintf("INSERT INTO _forebay_imports SELECT CONCAT('old-', seq), 'events', 1, UTC_TIMESTAMP() - INTERVAL 31 DAY FROM seq_1_to_%d", n), n)
}
