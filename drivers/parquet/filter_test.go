package parquet_test

import (
	"fmt"
	"os"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/drivertest"
)

// The row groups of new and of merged parts have filters of the named columns. Each value is in the filter of its group, and few others are.
// Other columns have none, and the rows are the same.
func TestBloomFilters(t *testing.T) {
	target := mustTables(t, t.TempDir(), parquet.Options{Bloom: []string{"trace", "at", "absent"}, RowGroup: 500})
	table := driver.Table{ID: "spans", Columns: []datatype.Column{
		{Name: "trace", Type: datatype.String}, {Name: "name", Type: datatype.String}, {Name: "at", Type: datatype.Timestamp},
	}}
	var want [][]string
	for i := range 16 {
		var rows [][]string
		for n := range 100 {
			trace := fmt.Sprintf("%032x", 1000*i+n/3)
			if n == 50 {
				trace = buffertest.Null
			}
			rows = append(rows, []string{trace, "GET", "2026-11-01T00:00:00.000000Z"})
		}
		want = append(want, rows...)
		drivertest.Import(t, target, fileOf(fmt.Sprintf("file-%02d", i), table, rows...))
	}
	single := checkFilters(t, target, table.ID)
	for range 2 {
		drivertest.Compact(t, target, table)
	}
	merged := checkFilters(t, target, table.ID)
	if single != 16 || merged >= single || merged < 2 {
		t.Errorf("got %d row groups before the merge and %d after it, want 16 and fewer, but several", single, merged)
	}
	expectRows(t, target, table.ID, want)
}

// checkFilters compares the filters of all parts with their values, and returns the number of row groups.
func checkFilters(t *testing.T, target *parquet.Target, table string) (groups int) {
	t.Helper()
	for _, path := range partsOf(t, target, table) {
		in, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			t.Fatal(err)
		}
		f, err := pq.OpenFile(in, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.RowGroups() {
			groups++
			chunks := group.ColumnChunks()
			if chunks[1].BloomFilter() != nil || chunks[2].BloomFilter() != nil {
				t.Errorf("%s has filters of columns that are no texts, or not named", path)
			}
			filter := chunks[0].BloomFilter()
			if filter == nil {
				t.Fatalf("%s has no filter", path)
			}
			has := func(v pq.Value) bool {
				ok, err := filter.Check(v)
				if err != nil {
					t.Fatal(err)
				}
				return ok
			}
			rows := group.Rows()
			defer rows.Close()
			all := make([]pq.Row, group.NumRows())
			if n, err := rows.ReadRows(all); n < len(all) {
				t.Fatal(n, err)
			}
			for _, row := range all {
				if v := row[0]; !v.IsNull() && !has(v) {
					t.Errorf("%s: %s is not in the filter of its row group", path, v)
				}
			}
			wrong := 0
			for i := range 1000 {
				if has(pq.ValueOf(fmt.Sprintf("none%028x", i))) {
					wrong++
				}
			}
			if wrong > 100 {
				t.Errorf("%s: %d of 1000 absent values seem to be there, want at most 100", path, wrong)
			}
		}
	}
	return groups
}
