package sqltest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
)

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
