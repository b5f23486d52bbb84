package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

var idColumn = col("id", datatype.Int64)

// importPatiently retries errors that a retry fixes, as the buffer does.
func importPatiently(t *testing.T, target *Target, f *driver.File) (err error) {
	for range 20 {
		if err = target.Import(t.Context(), f); err == nil || driver.IsPermanent(err) {
			return err
		}
	}
	return err
}

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
	const engines, files = 4, 8
	var wg sync.WaitGroup
	for n := range engines {
		target := reopen(t, database, Options{InsertOnly: n%2 == 0})
		wg.Go(func() {
			for i := range files {
				own := col(fmt.Sprintf("c%d", n), datatype.Int64)
				for id, columns := range map[string][]datatype.Column{
					fmt.Sprintf("shared-%d", i):    {idColumn},
					fmt.Sprintf("own-%d-%d", n, i): {own, idColumn},
				} {
					tbl := table("events", columns...)
					tbl.Extend = true
					row := []string{"1", "2"}
					if err := importPatiently(t, target, newFile(id, tbl, row[:len(columns)], row[:len(columns)])); err != nil {
						t.Errorf("%s: got %v, want no error", id, err)
					}
				}
			}
		})
	}
	wg.Wait()
	if rows := readTable(t, database, "events"); len(rows) != 2*(files+engines*files) {
		t.Errorf("got %d rows, want %d", len(rows), 2*(files+engines*files))
	}
}

// held is a slice that waits in its middle.
type held struct {
	io.Reader
	reading, release chan struct{}
	once             *sync.Once
}

func (h held) Read(p []byte) (int, error) {
	h.once.Do(func() {
		close(h.reading)
		<-h.release
	})
	return h.Reader.Read(p)
}

func (h held) Close() error { return nil }

// heldFile returns a file of 60 rows whose second slice is held, and the same file without that.
func heldFile(id string, tbl driver.Table) (f, whole *driver.File, rows [][]string, h held) {
	for i := range 60 {
		rows = append(rows, []string{fmt.Sprint(i)})
	}
	whole = newFile(id, tbl, rows...)
	h = held{reading: make(chan struct{}), release: make(chan struct{}), once: new(sync.Once)}
	f = new(*whole)
	f.OpenSlice = func(ctx context.Context, obj driver.Object) (io.ReadCloser, error) {
		r, err := whole.OpenSlice(ctx, obj)
		if err == nil && obj == f.Slices[1] {
			return held{r, h.reading, h.release, h.once}, nil
		}
		return r, err
	}
	return f, whole, rows, h
}

// The server is killed while it imports, and returns.
func TestServerIsKilled(t *testing.T) {
	target := open(t, Options{})
	tbl := table("events", idColumn)
	mustImport(t, target, newFile("file-1", tbl, []string{"1"}))
	f, whole, rows, h := heldFile("file-2", tbl)
	done := make(chan error, 1)
	go func() { done <- target.Import(context.Background(), f) }()
	<-h.reading
	server.Kill(t)
	server.Restart(t)
	close(h.release)
	drivertest.Retryable(t, "an import whose server was killed", <-done)
	if err := importPatiently(t, target, whole); err != nil { // the pool has connections to the server of before
		t.Fatal(err)
	}
	mustImport(t, target, newFile("file-1", tbl, []string{"1"}))
	expectRows(t, target, "events", append(rows, []string{"1"})...)
	if n, err := target.CountFile(t.Context(), tbl, "file-2"); err != nil || n != 60 {
		t.Errorf("CountFile = %d, %v, want 60", n, err)
	}
}

// A change of the table by another session waits until an import has ended, or the import waits for the change and then sees it.
func TestTypeChangesDuringImport(t *testing.T) {
	target := open(t, Options{})
	tbl := table("events", idColumn)
	mustEnsure(t, target, tbl)
	f, _, rows, h := heldFile("file-1", tbl)
	done := make(chan error, 1)
	go func() { done <- target.Import(context.Background(), f) }()
	<-h.reading
	altered := make(chan error, 1)
	db := server.Connect(t, target.database)
	go func() {
		_, err := db.Exec("ALTER TABLE events MODIFY id double")
		altered <- err
	}()
	server.Wait(t, "", "SELECT COUNT(*) > 0 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock'")
	close(h.release)
	if err := errors.Join(<-done, <-altered); err != nil {
		t.Fatal(err)
	}
	expectRows(t, target, "events", rows...)
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
	tbl := table("events", idColumn)
	if err := target.Compact(t.Context(), tbl); err != nil { // nothing is there
		t.Fatal(err)
	}
	target.cleaned.Store(0)
	mustImport(t, target, newFile("young", tbl, []string{"1"}))
	old := fmt.Sprintf("INSERT INTO _forebay_imports SELECT CONCAT('old-', seq), 'events', 1, UTC_TIMESTAMP() - INTERVAL 31 DAY FROM seq_1_to_%d", 2*removeBatch+1)
	exec(t, target, old)
	known := func() int { return len(readTable(t, target.database, imports)) }
	for range 2 {
		if err := target.Compact(t.Context(), tbl); err != nil {
			t.Fatal(err)
		}
		if n := known(); n != 1 {
			t.Errorf("%d ids are known, want the young one", n)
		}
	}
	exec(t, target, old)
	if err := target.Compact(t.Context(), tbl); err != nil || known() != 2*removeBatch+2 {
		t.Errorf("got %v, %d ids, want no error, %d: cleaned twice in an hour", err, known(), 2*removeBatch+2)
	}
}
