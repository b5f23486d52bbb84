package duckdb_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
)

// Rows whose time has passed go, in several transactions, and no others. The file that brought them still counts as imported.
func TestKeepFor(t *testing.T) {
	target := open(t, filepath.Join(t.TempDir(), "a.duckdb"), duckdb.Options{Threads: 1, KeepFor: 24 * time.Hour, KeepBy: []string{"at", "DAY"}})
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
	execute(t, target.DB(), fmt.Sprintf("INSERT INTO %s SELECT 100 + i, TIMESTAMPTZ '2026-01-01 00:00:00Z', NULL FROM range(250000) r(i)", quote(tbl.ID)))
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

// Rows are removed during imports, and the rows that remain are there after a restart too.
func TestKeepForBesideImports(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.duckdb")
	target, err := duckdb.Open(path, duckdb.Options{Threads: 2, KeepFor: time.Nanosecond, KeepBy: []string{"at"}})
	if err != nil {
		t.Fatal(err)
	}
	tbl := driver.Table{ID: "t", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "at", Type: datatype.Timestamp}}}
	old, young := "2026-01-01T00:00:00.000000Z", time.Now().Add(24*time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")
	const files, each = 60, 200
	var importing, removing sync.WaitGroup
	for part := range 3 {
		importing.Go(func() {
			for k := part; k < files; k += 3 {
				var all [][]string
				for i := range each {
					at := old
					if i%4 == 0 {
						at = young
					}
					all = append(all, []string{fmt.Sprint(k*each + i), at})
				}
				if err := target.Import(t.Context(), file(fmt.Sprintf("file-%d", k), tbl, all...)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	imported := make(chan struct{})
	removing.Go(func() {
		for done := false; !done; {
			select {
			case <-imported:
				done = true
			default:
			}
			if err := target.Compact(t.Context(), tbl); err != nil {
				t.Error(err)
			}
		}
	})
	importing.Wait()
	close(imported)
	removing.Wait()
	expect := func(when string) {
		t.Helper()
		var n, distinct, old int
		err := target.DB().QueryRow("SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE \"at\" < now()) FROM t").Scan(&n, &distinct, &old)
		if err != nil || n != files*each/4 || distinct != n || old != 0 {
			t.Errorf("%s: got %d rows, %d distinct, %d old, %v, want %d", when, n, distinct, old, err, files*each/4)
		}
	}
	expect("at the end")
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	target = open(t, path, duckdb.Options{})
	expect("after a restart")
}

func TestKeepForOptions(t *testing.T) {
	if target, err := duckdb.Open(filepath.Join(t.TempDir(), "a"), duckdb.Options{KeepFor: time.Hour}); err == nil {
		t.Errorf("%v: KeepFor without KeepBy is taken", target)
	}
}
