package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/postgres/pgtest"
	"github.com/forebay/forebay/internal/drivertest"
)

var idColumn = col("id", datatype.Int64)

// An attempt whose client is gone holds the id until the server notices. The next one waits, gives up, and succeeds when the first ends.
func TestAbandonedAttempt(t *testing.T) {
	target := open(t, Options{LockTimeout: 100 * time.Millisecond})
	tbl := table("events", idColumn)
	mustEnsure(t, target, tbl)
	f := newFile("file-1", tbl, []string{"1"})

	first := server.Connect(t)
	tx, err := first.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO "+target.table(imports)+" (file_id, table_name, rows) VALUES ('file-1', 'events', 1)"); err != nil {
		t.Fatal(err)
	}
	err = target.Import(t.Context(), f)
	if drivertest.Retryable(t, "the second attempt", err); sqlState(err) != lockNotAvailable {
		t.Errorf("got %v, want a lock time-out", err)
	}

	patient := reopen(t, target.options)
	patient.options.LockTimeout = time.Minute
	done := make(chan error, 1)
	go func() { done <- patient.Import(context.Background(), f) }()
	waitFor(t, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted")
	if err := first.PgConn().Conn().Close(); err != nil { // as the kernel does for a process that is killed
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the attempt that waited: %v", err)
	}
	mustImport(t, target, f)
	expectRows(t, target, "events", []string{"1"})
}

// waitFor repeats a query until its result is true.
func waitFor(tb testing.TB, query string) {
	tb.Helper()
	conn := server.Connect(tb)
	for yes := false; !yes; {
		if err := conn.QueryRow(context.Background(), query).Scan(&yes); err != nil {
			tb.Fatal(err)
		}
	}
}

// Another session changes types between two imports over one connection.
func TestTypeChangesBetweenImports(t *testing.T) {
	target := open(t, Options{MaxConns: 1})
	tbl := table("events", idColumn, col("v", datatype.Int64), col("j", datatype.JSON))
	mustImport(t, target, newFile("file-1", tbl, []string{"1", "1", "[]"}))

	exec(t, target, "ALTER TABLE events ALTER v TYPE double precision")
	second := newFile("file-2", tbl, []string{"2", "2", "[]"})
	var schema *driver.SchemaError
	if err := target.Import(t.Context(), second); !errors.As(err, &schema) {
		t.Errorf("Import of int64 into double precision = %v, want a *driver.SchemaError", err)
	}
	exec(t, target, "ALTER TABLE events ALTER v TYPE numeric, ALTER j TYPE jsonb")
	mustImport(t, target, second)
	exec(t, target, "ALTER TABLE events ALTER v TYPE bigint")
	mustImport(t, target, newFile("file-3", tbl, []string{"3", "3", "[]"}))
	expectRows(t, target, "events", []string{"1", "1", "[]"}, []string{"2", "2", "[]"}, []string{"3", "3", "[]"})

	exec(t, target, "DROP TABLE events")
	fourth := newFile("file-4", tbl, []string{"4", "4", "{}"})
	mustImport(t, target, fourth)
	expectRows(t, target, "events", []string{"4", "4", "{}"})
}

// A type changes while an import waits for its lock, even in a database whose transactions see the state of their beginning by default.
func TestTypeChangesDuringImport(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read"} {
		options := open(t, Options{}).options
		target, err := Open(server.URL(t)+" options='-c default_transaction_isolation="+strings.ReplaceAll(isolation, " ", "\\\\ ")+"'", options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = target.Close() })
		tbl := table("events", idColumn)
		mustEnsure(t, target, tbl)
		other := server.Connect(t)
		pgtest.Exec(t, other, "BEGIN; ALTER TABLE "+target.table("events")+" ALTER id TYPE double precision")
		done := make(chan error, 1)
		go func() { done <- target.Import(context.Background(), newFile("file-1", tbl, []string{"1"})) }()
		waitFor(t, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted")
		pgtest.Exec(t, other, "COMMIT")
		var schema *driver.SchemaError
		if err := <-done; !errors.As(err, &schema) || schema.Got[0].Type != datatype.Float64 {
			t.Errorf("%s: Import = %v, want a *driver.SchemaError with the new type", isolation, err)
		}
		expectRows(t, target, "events")
	}
}

// Several engines import the same files and others into one table, which they create and extend.
func TestEnginesTogether(t *testing.T) {
	options := open(t, Options{}).options
	const engines, files = 4, 8
	var wg sync.WaitGroup
	for n := range engines {
		target := reopen(t, options)
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
	if rows := readTable(t, options.Schema, "events"); len(rows) != 2*(files+engines*files) {
		t.Errorf("got %d rows, want %d", len(rows), 2*(files+engines*files))
	}
}

// importPatiently retries errors that a retry fixes, as the buffer does. An ALTER gives up on a table that is in use.
func importPatiently(t *testing.T, target *Target, f *driver.File) (err error) {
	for range 20 {
		if err = target.Import(t.Context(), f); err == nil || driver.IsPermanent(err) {
			return err
		}
	}
	return err
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

// The server is killed while it imports, and comes back.
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

// A client hangs in the middle of a copy. Other attempts get no lock until its time is over. Then one of them ends its connection.
func TestClientHangs(t *testing.T) {
	target := open(t, Options{LockTimeout: 100 * time.Millisecond})
	target.leastStatement = 2 * time.Second
	tbl := table("events", idColumn)
	mustEnsure(t, target, tbl)
	f, whole, rows, h := heldFile("file-1", tbl)
	done := make(chan error, 1)
	began := time.Now()
	attempt := func() { done <- target.Import(context.Background(), f) }
	go attempt()
	for hangs := false; !hangs; {
		select {
		case <-h.reading:
			hangs = true
		case err := <-done: // an earlier statement was too slow
			drivertest.Retryable(t, "an attempt before the copy", err)
			go attempt()
		}
	}
	other := reopen(t, target.options)
	for err := error(errPrepare); err != nil; {
		if err = other.Import(t.Context(), whole); err != nil {
			drivertest.Retryable(t, "an attempt while another one hangs", err)
		}
		if err == nil && time.Since(began) < target.leastStatement {
			t.Error("a client that does not yet hang for long lost its connection")
		}
	}
	close(h.release)
	drivertest.Retryable(t, "the attempt that hung", <-done)
	mustImport(t, target, whole)
	expectRows(t, target, "events", rows...)
}

// A pooler gives the connection to others between two transactions, so its settings are as before.
func TestSettingsEndWithTheTransaction(t *testing.T) {
	target := open(t, Options{MaxConns: 1, Keys: map[string][]string{"events": {"id"}}})
	settings := func() (all string) {
		err := target.pool.QueryRow(t.Context(), `SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) || (SELECT count(*) FROM pg_prepared_statements)
			|| (SELECT count(*) FROM pg_class WHERE relpersistence = 't') FROM pg_settings`).Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := settings()
	mustImport(t, target, newFile("file-1", table("events", required(idColumn)), []string{"1"}))
	if after := settings(); after != before {
		t.Errorf("settings of the session changed:\n%s\n%s", before, after)
	}
}

// Two server connections of a pooler are enough for several engines, in any order of their transactions.
func TestPooler(t *testing.T) {
	url := server.Bouncer(t)
	options := Options{Schema: server.Schema(t), Keys: map[string][]string{"users": {"id"}}}
	var targets []*Target
	for range 3 {
		target, err := Open(url, options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = target.Close() })
		targets = append(targets, target)
	}
	events, users := table("events", idColumn, col("v", datatype.Int64)), table("users", required(idColumn))
	var wg sync.WaitGroup
	for n, target := range targets {
		wg.Go(func() {
			for i := range 5 {
				for _, f := range []*driver.File{
					newFile(fmt.Sprint("shared-", i), events, []string{"1", "2"}), newFile(fmt.Sprintf("own-%d-%d", n, i), events, []string{"1", "2"}),
					newFile(fmt.Sprintf("users-%d-%d", n, i), users, []string{"1"}, []string{"2"}, []string{"1"}),
				} {
					if err := importPatiently(t, target, f); err != nil {
						t.Errorf("%s: got %v, want no error", f.ID, err)
					}
				}
			}
		})
	}
	wg.Wait()
	if rows := readTable(t, options.Schema, "events"); len(rows) != 20 {
		t.Errorf("got %d rows, want 20", len(rows))
	}
	expectRows(t, targets[0], "users", []string{"1"}, []string{"2"})
}

func TestUpsert(t *testing.T) {
	for _, mood := range []bool{false, true} { // in binary and as text
		target := open(t, Options{Keys: map[string][]string{"users": {"id", "part"}, "pairs": {"a", "b"}}})
		exec(t, target, userTypes)
		users := table("users", required(col("part", datatype.String)), required(idColumn), col("v", datatype.String))
		if mood {
			exec(t, target, "CREATE TABLE users (part text, id bigint, v mood, PRIMARY KEY (part, id), seen timestamptz NOT NULL DEFAULT now())")
		}
		read := func() (all []string) {
			rows, err := server.Connect(t).Query(t.Context(), "SELECT part || id || coalesce(v::text, '-') FROM "+target.table("users")+" ORDER BY 1")
			if err == nil {
				all, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		expect := func(want ...string) {
			t.Helper()
			if got := read(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		one := newFile("file-1", users, []string{"a", "1", "glad"}, []string{"a", "2", buffertest.Null}, []string{"a", "1", buffertest.Null}, []string{"b", "1", "glad"}, []string{"a", "1", `so "so"`})
		mustImport(t, target, one)
		expect(`a1so "so"`, "a2-", "b1glad")
		two := newFile("file-2", users, []string{"b", "1", buffertest.Null}, []string{"a", "2", "glad"}, []string{"c", "3", "glad"})
		mustImport(t, target, two)
		mustImport(t, target, one) // imported already, so newer rows stay
		expect(`a1so "so"`, "a2glad", "b1-", "c3glad")
		if n, err := target.CountFile(t.Context(), users, "file-1"); err != nil || n != 5 {
			t.Errorf("CountFile = %d, %v, want the 5 rows that were written", n, err)
		}

		pairs := table("pairs", required(col("a", datatype.Int64)), required(col("b", datatype.Int64)))
		mustImport(t, target, newFile("file-3", pairs, []string{"1", "1"}, []string{"1", "2"}, []string{"1", "1"}))
		mustImport(t, target, newFile("file-4", pairs, []string{"1", "2"}, []string{"1", "3"}))
		expectRows(t, target, "pairs", []string{"1", "1"}, []string{"1", "2"}, []string{"1", "3"})

		expectRefused(t, target.Import(t.Context(), newFile("file-5", users, []string{"d", buffertest.Null, "glad"})), driver.RowError{
			Row: -1, Column: "id", Reason: "23502", Message: `null value in column "id" of relation "users" violates not-null constraint`,
		})
		users.Columns = users.Columns[1:]
		drivertest.Permanent(t, "a mapping without its key", target.Ensure(t.Context(), users), `"part"`)
	}

	target := open(t, Options{Keys: map[string][]string{"events": {"id"}}})
	exec(t, target, "CREATE TABLE events (id bigint)")
	drivertest.Permanent(t, "a table without the key", target.Import(t.Context(), newFile("file-1", table("events", idColumn), []string{"1"})), "ON CONFLICT")
}

// Old ids are forgotten, in batches, and once an hour.
func TestCompact(t *testing.T) {
	target := open(t, Options{KeepIDs: minKeepIDs})
	tbl := table("events", idColumn)
	mustImport(t, target, newFile("young", tbl, []string{"1"}))
	old := "INSERT INTO _forebay_imports SELECT 'old-' || n, 'events', 1, now() - interval '31 days' FROM generate_series(1, 2500) n"
	exec(t, target, old)
	known := func() (n int) {
		if err := target.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+target.table(imports)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 2 {
		if err := target.Compact(t.Context(), tbl); err != nil {
			t.Fatal(err)
		}
		if n := known(); n != 1 {
			t.Errorf("%d ids are known, want the young one", n)
		}
	}
	exec(t, target, old)
	if err := target.Compact(t.Context(), tbl); err != nil || known() != 2501 {
		t.Errorf("got %v, %d ids, want no error, 2501: cleaned twice in an hour", err, known())
	}
}
