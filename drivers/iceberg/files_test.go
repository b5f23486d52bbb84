package iceberg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
)

// A writer syncs when it is closed. A device that cannot be synced makes it fail.
func TestFilesAreSynced(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{})
	mustImport(t, target, makeFile("engine-f1", 0, 1))
	files, err := load(t, target.Catalog(), "events").FS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	w, err := files.(icebergio.WriteFileIO).Create("file://" + os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(os.DevNull); err != nil || after.Mode() != before.Mode() {
		t.Errorf("the mode of the device: %v, was %v (%v)", after.Mode(), before.Mode(), err)
	}
	if err := w.Close(); err == nil {
		t.Error("Close does not sync")
	}
	name := filepath.Join(t.TempDir(), "a", "b", "c")
	if err := files.(icebergio.WriteFileIO).WriteFile("file://"+name, []byte("text")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(name); string(text) != "text" || err != nil {
		t.Errorf("got %q, %v, want string(text) == \"text\" and no error", text, err)
	}
}

// dataFiles lists the Parquet files below a folder.
func dataFiles(t *testing.T, folder string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".parquet") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// An import that fails leaves no data files.
func TestFailedImportLeavesNoFiles(t *testing.T) {
	folder := t.TempDir()
	target := open(t, folder, iceberg.Options{})
	columns := []datatype.Column{{Name: "id", Type: datatype.Int64}}
	if err := target.Import(t.Context(), fileOf("engine-f1", columns, [][]string{{"1"}, {"x"}})); err == nil {
		t.Fatal("a wrong cell is stored")
	}
	if paths := dataFiles(t, folder); len(paths) > 0 {
		t.Errorf("got %q, want len(paths) <= 0", paths)
	}
}

var typedColumns = []datatype.Column{
	{Name: "untyped"},
	{Name: "string", Type: datatype.String, Required: true},
	{Name: "bool", Type: datatype.Bool},
	{Name: "int64", Type: datatype.Int64},
	{Name: "float64", Type: datatype.Float64},
	{Name: "decimal", Type: datatype.Decimal(12, 2)},
	{Name: "wide", Type: datatype.Decimal(38, 5)},
	{Name: "timestamp", Type: datatype.Timestamp},
	{Name: "date", Type: datatype.Date},
	{Name: "uuid", Type: datatype.UUID},
	{Name: "json", Type: datatype.JSON},
	{Name: "bytes", Type: datatype.Bytes},
}

// Another reader finds the types in the Parquet files.
func TestParquetFilesAreTyped(t *testing.T) {
	folder := t.TempDir()
	target := open(t, folder, iceberg.Options{PartitionBy: "date"})
	values := []string{
		"é", "", "true", "-9223372036854775808", "-0", "-1234567890.12", "123456789012345678901234567890123.45678",
		"2026-11-22T07:47:19.000001Z", "2026-11-22", "0197c5a1-0000-7000-8000-00000000000f", `{"a":1}`, "AP8=",
	}
	nulls := slices.Repeat([]string{buffertest.Null}, len(values))
	nulls[0], nulls[1] = "", "b"
	mustImport(t, target, fileOf("engine-f1", typedColumns, [][]string{values, nulls}))
	got := rowsOf(t, target.Catalog(), "events")
	slices.SortFunc(got, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	if len(got) != 2 || !slices.Equal(got[0], values) || !slices.Equal(got[1], nulls) {
		t.Errorf("got  %q\nwant %q", got, [][]string{values, nulls})
	}
	paths := dataFiles(t, folder)
	if len(paths) != 2 || !strings.Contains(paths[0], "date_day=2026-11-22") || !strings.Contains(paths[1], "date_day=null") {
		t.Fatalf("the data files are %q", paths)
	}
	in, err := os.Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := pq.OpenFile(in, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	const want = `message schema {
	optional binary untyped (STRING) = 1;
	required binary string (STRING) = 2;
	optional boolean bool = 3;
	optional int64 int64 (INT(64,true)) = 4;
	optional double float64 = 5;
	optional fixed_len_byte_array(6) decimal (DECIMAL(12,2)) = 6;
	optional fixed_len_byte_array(16) wide (DECIMAL(38,5)) = 7;
	optional int64 timestamp (TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)) = 8;
	optional int32 date (DATE) = 9;
	optional fixed_len_byte_array(16) uuid (UUID) = 10;
	optional binary json (STRING) = 11;
	optional binary bytes = 12;
}`
	if schema := file.Schema().String(); schema != want {
		t.Errorf("the schema is\n%s\nwant\n%s", schema, want)
	}
	row := make([]pq.Row, 1)
	if n, err := file.RowGroups()[0].Rows().ReadRows(row); n != 1 {
		t.Fatal(err)
	}
	for i, want := range map[int]string{0: "é", 1: "", 2: "true", 3: "-9223372036854775808", 7: "1795333639000001", 10: `{"a":1}`, 11: "\x00\xff"} {
		if got := row[0][i].String(); got != want {
			t.Errorf("column %d: %q, want %q", i, got, want)
		}
	}
}

func TestOpenFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := iceberg.Open(path, iceberg.Options{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Open = %v, want an error with the path", err)
	}
}

// Several programs create a warehouse at the same time.
func TestOpenTogether(t *testing.T) {
	folder := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			target, err := iceberg.Open(folder, iceberg.Options{})
			if err == nil {
				err = target.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Names of columns that paths, queries and Avro do not take as they are, also as the column of the partitions.
func TestNamesOfColumns(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{PartitionBy: "a.b / c"})
	columns := []datatype.Column{
		{Name: "a.b / c", Type: datatype.Date}, {Name: "a_b___c_day", Type: datatype.Int64}, {Name: `q"uote`, Type: datatype.String}, {Name: "1st", Type: datatype.Bool},
	}
	row := []string{"2026-11-22", "1", "text", "true"}
	mustImport(t, target, fileOf("engine-f1", columns, [][]string{row}))
	f := fileOf("engine-f2", append(columns, datatype.Column{Name: "x.y", Type: datatype.String}), [][]string{append(slices.Clone(row), "new")})
	f.Table.Extend = true
	mustImport(t, target, f)
	got := rowsOf(t, target.Catalog(), "events")
	slices.SortFunc(got, func(a, b []string) int { return strings.Compare(a[4], b[4]) })
	want := [][]string{append(slices.Clone(row), "new"), append(slices.Clone(row), buffertest.Null)}
	slices.SortFunc(want, func(a, b []string) int { return strings.Compare(a[4], b[4]) })
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A file may have rows of very many days.
func TestManyDays(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{PartitionBy: "at"})
	var rows [][]string
	for i := range 300 {
		rows = append(rows, []string{fmt.Sprint(i), time.Date(2020, 1, 1+i, 0, 0, 0, 0, time.UTC).Format("2006-01-02T15:04:05.000000Z")})
	}
	f := makeFile("engine-f1", 0, 1)
	mustImport(t, target, fileOf("engine-f1", f.Table.Columns, rows))
	expectIDs(t, target.Catalog(), "events", len(rows))
}

func TestNames(t *testing.T) {
	target := open(t, t.TempDir(), iceberg.Options{})
	for _, name := range []string{"..", "a/b", "", "é", "a b", "-a", strings.Repeat("a", 201)} {
		if err := target.Ensure(t.Context(), driver.Table{ID: name, Columns: typedColumns}); !driver.IsPermanent(err) {
			t.Errorf("%q: got %v, want a permanent error", name, err)
		}
	}
}
