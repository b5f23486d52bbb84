package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

func TestNames(t *testing.T) {
	target := open(t, Options{})
	tables := 0
	long := strings.Repeat("é", 31) // 62 bytes
	for name, ok := range map[string]bool{
		long + "x": true, long + "y": true, long + "xy": false, "a\x00b": false, "a\xffb": false, `a"b.c`: true, "SELECT": true, "Ä ö": true, "": false,
		reserved + "x": false,
	} {
		tbl := table(name, idColumn)
		err := target.Ensure(t.Context(), tbl)
		if ok {
			mustImport(t, target, newFile("table "+name, tbl, []string{"1"}))
			expectRows(t, target, name, []string{"1"})
		} else {
			drivertest.Permanent(t, "Ensure of "+name, err)
			drivertest.Permanent(t, "Import into "+name, target.Import(t.Context(), newFile("file", tbl)))
		}
		if strings.HasPrefix(name, reserved) {
			continue // the mapping refuses it
		}
		tables++
		tbl = table(fmt.Sprint("columns ", tables), col(name, datatype.Int64))
		if !ok {
			drivertest.Permanent(t, "Ensure with the column "+name, target.Ensure(t.Context(), tbl))
			continue
		}
		mustImport(t, target, newFile("column "+name, tbl, []string{"1"}))
		expectRows(t, target, tbl.ID, []string{"1"})
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{MaxConns: -1}, {LockTimeout: -1}, {KeepIDs: 1}, {Schema: strings.Repeat("s", 64)}, {Keys: map[string][]string{"t": {}}},
	} {
		if target, err := Open("host=/nowhere", o); err == nil {
			target.Close()
			t.Errorf("Open with %+v = nil", o)
		} else if got := Validate("host=/nowhere", o); got == nil || got.Error() != err.Error() {
			t.Errorf("Validate with %+v = %v, Open says %v", o, got, err)
		}
	}
	if err := Validate("postgres://me:secret@%zz/x", Options{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Validate of an address that cannot be read = %v", err)
	}
	// A pool would connect at once.
	if err := Validate("postgres://nowhere.invalid/x?pool_min_conns=5", Options{Configure: func(*pgxpool.Config) { t.Error("Configure was called") }}); err != nil {
		t.Error(err)
	}
	configured := false
	target, err := Open("host=/nowhere", Options{Configure: func(*pgxpool.Config) { configured = true }})
	if err != nil || !configured {
		t.Fatalf("got %v, configured %v, want no error, true", err, configured)
	}
	target.Close()
	missing := reopen(t, Options{Schema: "missing"})
	drivertest.Permanent(t, "a schema that is missing", missing.Ensure(t.Context(), table("t", idColumn)), "missing")
}

// Columns that the database fills are left to it. What else the mapping lacks is NULL with Extend, and refused without.
func TestColumnsOfOthers(t *testing.T) {
	target := open(t, Options{})
	exec(t, target, `CREATE TABLE events (key bigserial PRIMARY KEY, id bigint NOT NULL, twice bigint GENERATED ALWAYS AS (id * 2) STORED,
		number bigint GENERATED ALWAYS AS IDENTITY, note text NOT NULL DEFAULT 'none')`)
	events := table("events", required(idColumn))
	mustEnsure(t, target, events)
	mustImport(t, target, newFile("file-1", events, []string{"7"}))
	expectRows(t, target, "events", []string{"1", "7", "14", "1", "none"})
	noted := table("events", required(idColumn), required(col("note", datatype.String)))
	mustImport(t, target, newFile("file-2", noted, []string{"8", "a note"}))
	expectRows(t, target, "events", []string{"1", "7", "14", "1", "none"}, []string{"2", "8", "16", "2", "a note"})

	exec(t, target, `CREATE TABLE grown (id bigint, hidden bigint NOT NULL, dropped text); ALTER TABLE grown DROP dropped`)
	grown := table("grown", idColumn)
	if err := target.Ensure(t.Context(), grown); err == nil {
		t.Errorf("Ensure without Extend accepts a table with another column")
	}
	grown.Extend = true
	mustImport(t, target, newFile("file-3", grown, []string{"1"}))
	exec(t, target, `ALTER TABLE grown DROP id`)
	mustImport(t, target, newFile("file-4", grown, []string{"2"}))
	expectRows(t, target, "grown", []string{buffertest.Null, buffertest.Null}, []string{buffertest.Null, "2"})
}

// A change of a table does not wait long, because its readers wait for it. A table that lacks no column is not locked.
func TestExtendBesideReaders(t *testing.T) {
	target := open(t, Options{})
	events := table("events", idColumn)
	mustEnsure(t, target, events)
	reader := server.Connect(t)
	tx, err := reader.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+target.table("events")); err != nil {
		t.Fatal(err)
	}
	events.Extend = true
	mustImport(t, target, newFile("file-1", events, []string{"1"}))
	events.Columns = append(events.Columns, col("v", datatype.Int64))
	two := newFile("file-2", events, []string{"2", "2"})
	err = target.Import(t.Context(), two)
	if drivertest.Retryable(t, "an ALTER while a reader holds the table", err); sqlState(err) != lockNotAvailable {
		t.Errorf("got %v, want a lock time-out", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustImport(t, target, two)
}

// A user without rights gets the statement that another user must run.
func TestRights(t *testing.T) {
	owner := open(t, Options{})
	exec(t, owner, `DROP ROLE IF EXISTS loader; CREATE ROLE loader LOGIN; GRANT USAGE ON SCHEMA `+owner.options.Schema+` TO loader`)
	t.Cleanup(func() { exec(t, owner, `DROP OWNED BY loader; DROP ROLE loader`) })
	target, err := Open(server.URL(t)+" user=loader", owner.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	events := table("events", idColumn)
	create := `CREATE TABLE "` + owner.options.Schema + `"."events" ("id" bigint)`
	drivertest.Permanent(t, "Ensure", target.Ensure(t.Context(), events), `CREATE TABLE "`+owner.options.Schema+`"."_forebay_imports" (file_id`, create)
	mustEnsure(t, owner, events)
	f := newFile("file-1", events, []string{"1"})
	drivertest.Permanent(t, "Import", target.Import(t.Context(), f), "permission denied")
	exec(t, owner, `GRANT INSERT, SELECT ON events, _forebay_imports TO loader`)
	mustImport(t, target, f)
	events.Extend, events.Columns = true, append(events.Columns, col("at", datatype.Timestamp))
	alter := `ALTER TABLE "` + owner.options.Schema + `"."events" ADD COLUMN "at" timestamptz`
	f = newFile("file-2", events, []string{"2", "2026-11-22T07:47:19.000001Z"})
	drivertest.Permanent(t, "Import of another column", target.Import(t.Context(), f), alter)
	exec(t, owner, alter)
	mustImport(t, target, f)
}

// A new table has the indexes of whose columns it has all. A table that exists keeps its own.
func TestIndexes(t *testing.T) {
	target := open(t, Options{Indexes: [][]string{{"TraceId", "at"}, {"at"}}})
	spans := driver.Table{ID: "sp'a\"ns", Columns: []datatype.Column{{Name: "TraceId", Type: datatype.String}, {Name: "at", Type: datatype.Timestamp}}}
	others := driver.Table{ID: "others", Columns: []datatype.Column{{Name: "at", Type: datatype.Timestamp}}}
	for range 2 {
		for _, table := range []driver.Table{spans, others} {
			if err := target.Ensure(t.Context(), table); err != nil {
				t.Fatal(err)
			}
		}
	}
	indexes := func() string {
		var got string
		if err := target.pool.QueryRow(t.Context(), `SELECT string_agg(tablename || ': ' || substring(indexdef FROM 'btree.*'), '; ' ORDER BY tablename, indexdef)
			FROM pg_catalog.pg_indexes WHERE schemaname = $1 AND tablename <> '_forebay_imports'`, target.options.Schema).Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := `others: btree (at); sp'a"ns: btree ("TraceId", at); sp'a"ns: btree (at)`
	if got := indexes(); got != want {
		t.Errorf("indexes %s, want %s", got, want)
	}
	again := target.options
	again.Indexes = [][]string{{"id"}, {"TraceId"}}
	if err := reopen(t, again).Ensure(t.Context(), spans); err != nil {
		t.Fatal(err)
	}
	if got := indexes(); got != want {
		t.Errorf("indexes of a table that exists: %s, want %s", got, want)
	}
	document := driver.Table{ID: "documents", Columns: []datatype.Column{{Name: "id", Type: datatype.JSON}}}
	if err := reopen(t, again).Ensure(t.Context(), document); !driver.IsPermanent(err) || !strings.Contains(err.Error(), `"id", which is json`) {
		t.Errorf("an index of a json column: %v", err)
	}
	if err := Validate(server.URL(t), Options{Indexes: [][]string{{}}}); err == nil || !strings.Contains(err.Error(), "without a column") {
		t.Errorf("an index without a column: %v", err)
	}
}
