package postgres

import (
	"context"
	"errors"
	"fmt"
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
	drivertest.EnginesTogether(t, func(int) driver.Target { return reopen(t, options) },
		func(table string) [][]string { return readTable(t, options.Schema, table) })
}

// The server is killed while it imports, and returns.
func TestServerIsKilled(t *testing.T) {
	drivertest.ServerIsKilled(t, tables(t, open(t, Options{})), &server)
}

// A client hangs in the middle of a copy. Other attempts get no lock until its time is over. Then one of them ends its connection.
func TestClientHangs(t *testing.T) {
	target := open(t, Options{LockTimeout: 100 * time.Millisecond})
	target.leastStatement = 2 * time.Second
	tbl := table("events", idColumn)
	mustEnsure(t, target, tbl)
	h := drivertest.Hold("file-1", tbl)
	done := make(chan error, 1)
	began := time.Now()
	attempt := func() { done <- target.Import(context.Background(), h.File) }
	go attempt()
	for hangs := false; !hangs; {
		select {
		case <-h.Reading:
			hangs = true
		case err := <-done: // an earlier statement was too slow
			drivertest.Retryable(t, "an attempt before the copy", err)
			go attempt()
		}
	}
	other := reopen(t, target.options)
	for err := error(errPrepare); err != nil; {
		if err = other.Import(t.Context(), h.Whole); err != nil {
			drivertest.Retryable(t, "an attempt while another one hangs", err)
		}
		if err == nil && time.Since(began) < target.leastStatement {
			t.Error("a client that does not yet hang for long lost its connection")
		}
	}
	close(h.Release)
	drivertest.Retryable(t, "the attempt that hung", <-done)
	mustImport(t, target, h.Whole)
	expectRows(t, target, "events", h.Rows...)
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
					if err := drivertest.Patiently(t, target, f); err != nil {
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
	drivertest.ForgetsIDs(t, tables(t, open(t, Options{KeepIDs: minKeepIDs})), imports,
		"INSERT INTO _forebay_imports SELECT 'old-' || n, 'events', 1, now() - interval '31 days' FROM generate_series(1, 2500) n", 2500)
}
