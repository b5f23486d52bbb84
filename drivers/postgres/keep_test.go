package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

// Rows whose time has passed go, in several transactions, and no others. The file that brought them still counts as imported.
func TestKeepFor(t *testing.T) {
	target := open(t, Options{KeepFor: 24 * time.Hour, KeepBy: []string{"at", "DAY"}})
	now := time.Now().UTC()
	stamp := func(age time.Duration) string { return now.Add(-age).Format("2006-01-02T15:04:05.000000Z") }
	day := func(age time.Duration) string { return now.Add(-age).Format(time.DateOnly) }
	const hour, null = time.Hour, buffertest.Null
	tbl := driver.Table{ID: "it's \"odd\"", Columns: []datatype.Column{
		{Name: "id", Type: datatype.Int64}, {Name: "at", Type: datatype.Timestamp}, {Name: "day", Type: datatype.Date},
	}}
	stay := [][]string{
		{"1", stamp(23 * hour), null}, {"2", stamp(-1000 * hour), day(100 * hour)}, {"3", null, day(24 * hour)}, {"4", null, null},
	}
	gone := [][]string{{"5", stamp(25 * hour), day(0)}, {"6", null, day(49 * hour)}, {"7", "1969-12-31T23:59:59.000000Z", null}}
	f := newFile("file-1", tbl, slices.Concat(stay, gone)...)
	other := driver.Table{ID: "other", Columns: []datatype.Column{{Name: "at", Type: datatype.String}}}
	mustImport(t, target, f)
	mustImport(t, target, newFile("file-2", other, []string{stamp(1000 * hour)}))
	exec(t, target, "ALTER TABLE "+quote(tbl.ID)+" SET (fillfactor = 10)") // more blocks than one transaction looks through
	exec(t, target, "INSERT INTO "+quote(tbl.ID)+" SELECT 100 + i, '2026-01-01 00:00Z', NULL FROM generate_series(1, 45000) i")
	for _, tbl := range []driver.Table{tbl, other, {ID: "absent", Columns: tbl.Columns}} {
		if err := target.Compact(t.Context(), tbl); err != nil {
			t.Fatal(err)
		}
	}
	mustImport(t, target, f)
	expectRows(t, target, tbl.ID, stay...)
	expectRows(t, target, other.ID, []string{stamp(1000 * hour)})
	if n, err := target.CountFile(t.Context(), tbl, f.ID); err != nil || n != int64(len(stay)+len(gone)) {
		t.Errorf("the file counts %d rows, %v", n, err)
	}
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
	if err := target.Compact(t.Context(), tbl); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, row := range readTable(t, target.options.Schema, "events") {
		ids = append(ids, row[0])
	}
	slices.Sort(ids)
	if want := []string{"108", "109", "7"}; !slices.Equal(ids, want) {
		t.Errorf("got %q, want %q", ids, want)
	}
}
