package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/internal/drivertest"
)

// Rows whose time has passed are removed, in several transactions, and no others. The file that brought them still counts as imported.
func TestKeepFor(t *testing.T) {
	const name = `it's "odd"`
	target := open(t, Options{KeepFor: 24 * time.Hour, KeepBy: []string{"at", "DAY"}})
	drivertest.KeepFor(t, tables(t, target), name, "ALTER TABLE "+quote(name)+" SET (fillfactor = 10); "+ // more blocks than one transaction looks through
		"INSERT INTO "+quote(name)+" SELECT 100 + i, '2026-01-01 00:00Z', NULL FROM generate_series(1, 45000) i")
}

// The partitions of a table lose their rows too, and a row that is locked makes only the removal wait.
func TestKeepForPartitions(t *testing.T) {
	target := open(t, Options{KeepFor: time.Hour, KeepBy: []string{"at"}, LockTimeout: 50 * time.Millisecond})
	exec(t, target, `CREATE TABLE events (id bigint, at timestamptz) PARTITION BY RANGE (id);
		CREATE TABLE "Events 1" PARTITION OF events FOR VALUES FROM (0) TO (100) PARTITION BY LIST (id);
		CREATE TABLE events_7 PARTITION OF "Events 1" FOR VALUES IN (7);
		CREATE TABLE events_other PARTITION OF events DEFAULT;
		INSERT INTO events VALUES (7, now() - interval '2 hours'), (7, now()), (107, now() - interval '2 hours'), (108, now())`)
	tbl := table("events", idColumn, col("at", datatype.Timestamp))
	conn := server.Connect(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+target.table("events_other")+" WHERE id = 107 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	drivertest.Retryable(t, "Compact while the table is locked", target.Compact(t.Context(), tbl))
	mustImport(t, target, newFile("file-1", tbl, []string{"109", "2126-01-01T00:00:00.000000Z"}))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	target = reopen(t, target.options)
	drivertest.Compact(t, target, tbl)
	var ids []string
	for _, row := range readTable(t, target.options.Schema, "events") {
		ids = append(ids, row[0])
	}
	slices.Sort(ids)
	if want := []string{"108", "109", "7"}; !slices.Equal(ids, want) {
		t.Errorf("got %q, want %q", ids, want)
	}
}
