package iceberg_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/drivers/iceberg"
)

// Merged files have filters of the named text columns, which hold their values and few others. The properties of the table stay as they are.
func TestBloomFilters(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{Bloom: []string{"trace", "id", "absent"}})
	columns := []datatype.Column{{Name: "id", Type: datatype.Int64, Required: true}, {Name: "trace", Type: datatype.String}}
	const files, rows = 16, 50
	for i := range files {
		var all [][]string
		for n := range rows {
			all = append(all, []string{fmt.Sprint(rows*i + n), fmt.Sprintf("%032x", rows*i+n)})
		}
		mustImport(t, target, fileOf(fmt.Sprintf("engine-f%d", i), columns, all))
	}
	before := fmt.Sprint(load(t, target.Catalog(), "events").Properties())
	mustCompact(t, target)
	if after := fmt.Sprint(load(t, target.Catalog(), "events").Properties()); after != before {
		t.Errorf("the properties after the merge are %s, want %s", after, before)
	}
	expectIDs(t, target.Catalog(), "events", files*rows)
	paths := liveFiles(t, target.Target)
	if len(paths) != 1 {
		t.Fatalf("got %d files after the merge, want 1", len(paths))
	}
	path := strings.TrimPrefix(paths[0], "file://")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info.Size() > 200<<10 {
		t.Errorf("the file has %d bytes, want at most 200 KiB with a filter of 128 KiB", info.Size())
	}
	group, err := f.GetBloomFilterReader().RowGroup(0)
	if err != nil {
		t.Fatal(err)
	}
	if of, err := group.GetColumnBloomFilter(0); of != nil || err != nil {
		t.Errorf("a column of numbers has a filter, or an error: %v", err)
	}
	filter, err := group.GetColumnBloomFilter(1)
	if err != nil || filter == nil {
		t.Fatalf("no filter: %v", err)
	}
	wrong := 0
	for n := range files * rows {
		if !filter.CheckHash(filter.Hasher().Sum64([]byte(fmt.Sprintf("%032x", n)))) {
			t.Errorf("%032x is not in the filter", n)
		}
		if filter.CheckHash(filter.Hasher().Sum64([]byte(fmt.Sprintf("none%028x", n)))) {
			wrong++
		}
	}
	if wrong > 40 {
		t.Errorf("%d of %d absent values seem to be there, want at most 40", wrong, files*rows)
	}
}
