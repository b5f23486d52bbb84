package parquet_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/drivers/parquet/parquettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustTables(t testing.TB, path string, o parquet.Options) *parquet.Target {
	t.Helper()
	target, err := parquet.Tables(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func harness(options parquet.Options) buffertest.TargetHarness {
	var path string
	var target *parquet.Target
	open := func(t *testing.T, at string) driver.Target {
		target = mustTables(t, at, options)
		return target
	}
	return buffertest.TargetHarness{
		Open:      func(t *testing.T) driver.Target { path = t.TempDir(); return open(t, path) },
		Reopen:    func(t *testing.T) driver.Target { return open(t, path) },
		Rows:      func(t *testing.T, table string) [][]string { return rowsOf(t, target, table) },
		Process:   &buffertest.Process{Place: func(*testing.T) string { return path }, Open: open},
		Typed:     true,
		TextOnly:  true, // text in Parquet is UTF-8
		Unordered: options.PartitionBy != "",
		Refusal: &buffertest.Refusal{
			Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "text"}},
			Good:    []string{"1", "é"}, Bad: []string{"1", "\xe9"}, Column: "text",
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]parquet.Options{
		"merged": {},
		"days":   {PartitionBy: "c_timestamp", Compression: parquet.Snappy, MergeTo: -1, EmptyPart: true},
	} {
		t.Run(name, func(t *testing.T) { buffertest.Target(t, harness(options)) })
	}
}

func TestKills(t *testing.T) { buffertest.Kills(t, harness(parquet.Options{})) }

func TestWrongOptions(t *testing.T) {
	for _, o := range []parquet.Options{{Compression: "lzo"}, {MergeTo: -2}, {RowGroup: -1}} {
		if _, err := parquet.Tables(t.TempDir(), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// rowsOf reads a table with the library alone. Columns are matched by name.
func rowsOf(t testing.TB, target *parquet.Target, table string) (rows [][]string) {
	t.Helper()
	columns, err := target.Columns(table)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	paths := partsOf(t, target, table)
	for _, path := range paths {
		part, err := parquettest.ReadPart(path, columns)
		if err != nil {
			t.Fatalf("%s: got %v, want no error", path, err)
		}
		rows = append(rows, part...)
	}
	return rows
}

// partsOf lists the parts of a table as a glob does, in the order of their names.
func partsOf(t testing.TB, target *parquet.Target, table string) (paths []string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(target.Path(table))
	if err == nil {
		err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".parquet") {
				paths = append(paths, path)
			}
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	return paths
}
