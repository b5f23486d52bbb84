package sqlite_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/sqlite"
)

// Rows whose time has passed go, in several transactions, and no others. The file that brought them still counts as imported.
func TestKeepFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	target := open(t, path, sqlite.Options{KeepFor: 24 * time.Hour, KeepBy: []string{"at", "DAY"}})
	mustImport := func(t *testing.T, target *sqlite.Target, f *driver.File) {
		t.Helper()
		if err := target.Import(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	expectRows := func(t *testing.T, _ *sqlite.Target, table string, want ...[]string) {
		t.Helper()
		if got := rows(t, path, table); !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Errorf("got %.2000q\nwant\n%.2000q", got, want)
		}
	}
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
	f := file("file-1", tbl, slices.Concat(stay, gone)...)
	other := driver.Table{ID: "other", Columns: []datatype.Column{{Name: "at", Type: datatype.String}}}
	mustImport(t, target, f)
	mustImport(t, target, file("file-2", other, []string{stamp(1000 * hour)}))
	execute(t, path, `WITH RECURSIVE r(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM r WHERE i < 3600)
		INSERT INTO "it's ""odd""" SELECT i, '2026-01-01T00:00:00.000000Z', NULL FROM r`)
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
