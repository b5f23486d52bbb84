package duckdb_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/drivertest"
)

// Rows whose time has passed are removed, in several transactions, and no others. The file that brought them still counts as imported.
func TestKeepFor(t *testing.T) {
	target := open(t, filepath.Join(t.TempDir(), "a.duckdb"), duckdb.Options{Threads: 1, KeepFor: 24 * time.Hour, KeepBy: []string{"at", "DAY"}})
	drivertest.KeepFor(t, tables(t, target), `it's "odd"`,
		`INSERT INTO "it's ""odd""" SELECT 100 + i, TIMESTAMPTZ '2026-01-01 00:00:00Z', NULL FROM range(250000) r(i)`)
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
