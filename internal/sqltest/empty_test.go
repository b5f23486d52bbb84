package sqltest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/buffer/dir"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
)

// A table of CSV that has no row yet, or has got a column, can be queried by its names, and CSV without header lines gets no part that lacks them.
func TestDuckDBReadsEmptyCSV(t *testing.T) {
	for name, o := range map[string]dir.TablesOptions{"flat": {}, "compressed": {Gzip: true}, "days": {PartitionBy: "at", MergeTo: 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			o.EmptyPart = true
			target := dir.TablesWith(t.TempDir(), o)
			table := driver.Table{ID: "t", Extend: true, Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "at", Type: datatype.Timestamp}}}
			if err := target.Ensure(t.Context(), table); err != nil {
				t.Fatal(err)
			}
			from := fmt.Sprintf(" FROM "+read, target.Path("t"), "all_varchar = true")
			from = strings.Replace(from, "/*.csv'", "/*.csv*'", 1)
			expect := func(query, want string) {
				t.Helper()
				if got := strings.TrimSpace(ask(t, query+from)); got != want {
					t.Errorf("%s: got %s, want %s", query, got, want)
				}
			}
			expect(`SELECT count("at")`, `"0"`)
			table.Columns = append(table.Columns, datatype.Column{Name: "doc", Type: datatype.JSON})
			if err := target.Extend(t.Context(), table); err != nil {
				t.Fatal(err)
			}
			expect("SELECT count(doc) + count(id)", `"0"`)
			f := file("file-1", table, []string{"7", "2026-11-22T07:47:19.000001Z", "{}"})
			if err := target.Import(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			expect("SELECT id, doc", `"7","{}"`)
			rows := 0
			for _, err := range target.Rows("t") {
				if err != nil {
					t.Fatal(err)
				}
				rows++
			}
			if n, err := target.CountFile(t.Context(), table, f.ID); n != 1 || err != nil || rows != 1 {
				t.Errorf("the file has %d rows and the table %d, %v, want 1 and 1, no error", n, rows, err)
			}
		})
	}
	bare := dir.TablesWith(t.TempDir(), dir.TablesOptions{EmptyPart: true, NoHeader: true})
	if err := bare.Ensure(t.Context(), driver.Table{ID: "t", Columns: []datatype.Column{{Name: "id"}}}); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(bare.Path("t"), "*.csv")); len(files) > 0 || err != nil {
		t.Errorf("got the parts %q, %v, want none", files, err)
	}
}

// DuckDB queries a table that has no row yet, that has got a column, and that has lost its last part, with the types of its columns.
func TestDuckDBReadsEmptyTables(t *testing.T) {
	for name, o := range map[string]parquet.Options{
		"flat": {MergeTo: -1}, "merged": {}, "days": {PartitionBy: "at"},
	} {
		t.Run(name, func(t *testing.T) {
			o.EmptyPart, o.KeepFor = true, time.Nanosecond
			folder := t.TempDir()
			target, err := parquet.Tables(folder, o)
			if err != nil {
				t.Fatal(err)
			}
			table := driver.Table{ID: "t", Creation: "first", Columns: []datatype.Column{{Name: "id", Type: datatype.Int64, Required: true}, {Name: "at", Type: datatype.Timestamp}}}
			from := " FROM " + fmt.Sprintf(readParquet, filepath.Join(folder, "t"))
			expect := func(when, query, want string) {
				t.Helper()
				if got := strings.TrimSpace(ask(t, query+from)); got != `"`+want+`"` {
					t.Errorf("%s: got %s, want %q", when, got, want)
				}
			}
			if err := target.Ensure(t.Context(), table); err != nil {
				t.Fatal(err)
			}
			expect("a new table", "SELECT count(*)", "0")
			if err := target.Uncreate(t.Context(), "t", "first"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(folder, "t")); !os.IsNotExist(err) {
				t.Errorf("the table is there after Uncreate: %v", err)
			}
			if err := target.Ensure(t.Context(), table); err != nil {
				t.Fatal(err)
			}
			table.Columns = append(table.Columns, datatype.Column{Name: "doc", Type: datatype.JSON})
			if err := target.Extend(t.Context(), table); err != nil {
				t.Fatal(err)
			}
			expect("a new column", "SELECT count(doc) + count(id)", "0")
			f := file("file-1", table, []string{"7", "2026-11-22T07:47:19.000001Z", "{}"})
			if err := target.Import(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			expect("a row", "SELECT concat_ws(' ', id, typeof(id), typeof(\"at\"), typeof(doc))", "7 BIGINT TIMESTAMP WITH TIME ZONE JSON")
			if o.PartitionBy != "" {
				expect("a day", "SELECT concat(dt, ' ', typeof(dt))", "2026-11-22 DATE")
			}
			if n, err := target.CountFile(t.Context(), table, f.ID); n != 1 || err != nil {
				t.Errorf("the file has %d rows, %v", n, err)
			}
			if err := target.Compact(t.Context(), table); err != nil {
				t.Fatal(err)
			}
			expect("an empty table", "SELECT count(*)", "0")
		})
	}
}
