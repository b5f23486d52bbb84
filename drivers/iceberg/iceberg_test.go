package iceberg_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/iceberg"
	"github.com/forebay/forebay/internal/drivertest"
)

func open(t testing.TB, folder string, opts iceberg.Options) *iceberg.Local {
	t.Helper()
	target, err := iceberg.Open(folder, opts)
	return drivertest.Opened(t, target, err)
}

// load loads a table, nil if it is absent.
func load(t testing.TB, c catalog.Catalog, name string) *table.Table {
	t.Helper()
	tbl, err := c.LoadTable(context.Background(), table.Identifier{"forebay", name})
	if errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return tbl
}

// rowsOf scans a table as another program would.
func rowsOf(t testing.TB, c catalog.Catalog, name string) (rows [][]string) {
	t.Helper()
	tbl := load(t, c, name)
	if tbl == nil || tbl.CurrentSnapshot() == nil {
		return nil
	}
	_, batches, err := tbl.Scan().ToArrowRecords(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for batch, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		for r := range int(batch.NumRows()) {
			row := make([]string, batch.NumCols())
			for i := range row {
				row[i] = canonical(t, batch.Column(i), r)
			}
			rows = append(rows, row)
		}
		batch.Release()
	}
	return rows
}

// canonical returns a value as the canonical text of its type.
func canonical(t testing.TB, column arrow.Array, row int) string {
	t.Helper()
	if column.IsNull(row) {
		return buffertest.Null
	}
	switch c := column.(type) {
	case *array.String:
		return c.Value(row)
	case *array.LargeString:
		return c.Value(row)
	case *array.Binary:
		return base64.StdEncoding.EncodeToString(c.Value(row))
	case *array.LargeBinary:
		return base64.StdEncoding.EncodeToString(c.Value(row))
	case *array.Boolean:
		return fmt.Sprint(c.Value(row))
	case *array.Int64:
		return fmt.Sprint(c.Value(row))
	case *array.Float64:
		return string(datatype.AppendFloat64(nil, c.Value(row)))
	case *array.Timestamp:
		return time.UnixMicro(int64(c.Value(row))).UTC().Format("2006-01-02T15:04:05.000000Z")
	case *array.Date32:
		return c.Value(row).ToTime().Format(time.DateOnly)
	case *array.Decimal128:
		return c.Value(row).ToString(c.DataType().(*arrow.Decimal128Type).Scale)
	case *extensions.UUIDArray:
		return c.Value(row).String()
	}
	t.Fatalf("a column of %s", column.DataType())
	return ""
}

func harness(opts iceberg.Options) buffertest.TargetHarness {
	var folder string
	var target *iceberg.Local
	openAt := func(t *testing.T, at string) driver.Target {
		target = open(t, at, opts)
		return target
	}
	return buffertest.TargetHarness{
		Open: func(t *testing.T) driver.Target {
			folder = filepath.Join(t.TempDir(), "a lake%41")
			return openAt(t, folder)
		},
		Reopen:    func(t *testing.T) driver.Target { return openAt(t, folder) },
		Rows:      func(t *testing.T, table string) [][]string { return rowsOf(t, target.Catalog(), table) },
		Process:   &buffertest.Process{Place: func(*testing.T) string { return folder }, Open: openAt},
		Typed:     true,
		TextOnly:  true, // a string is UTF-8
		Unordered: true, // partitions are written at the same time
		Refusal: &buffertest.Refusal{
			Columns: []datatype.Column{{Name: "id", Type: datatype.Int64}, {Name: "text"}},
			Good:    []string{"1", "é"}, Bad: []string{"1", "\xe9"}, Column: "text",
		},
	}
}

func TestConformance(t *testing.T) {
	t.Run("local", func(t *testing.T) { buffertest.Target(t, harness(iceberg.Options{})) })
	t.Run("REST", func(t *testing.T) {
		h := harness(iceberg.Options{})
		local, reopenLocal, rows := h.Open, h.Reopen, h.Rows
		days := iceberg.Options{PartitionBy: "c_timestamp"}
		h.Open = func(t *testing.T) driver.Target { return overREST(t, local(t).(*iceberg.Local), days) }
		h.Reopen = func(t *testing.T) driver.Target { return overREST(t, reopenLocal(t).(*iceberg.Local), days) }
		h.Rows = rows
		buffertest.Target(t, h)
	})
}

func TestKills(t *testing.T) { buffertest.Kills(t, harness(iceberg.Options{})) }

// makeFile returns a file of rows with an id and a day, in one slice.
func makeFile(id string, first, rows int) *driver.File {
	columns := []datatype.Column{{Name: "id", Type: datatype.Int64, Required: true}, {Name: "at", Type: datatype.Timestamp}}
	var all [][]string
	for i := range rows {
		day := fmt.Sprintf("2026-11-%02dT12:00:00.000000Z", 1+(first+i)%3)
		all = append(all, []string{fmt.Sprint(first + i), day})
	}
	return fileOf(id, columns, all)
}

// ids returns the first column of a table, sorted.
func ids(t testing.TB, c catalog.Catalog, name string) (list []string) {
	t.Helper()
	for _, row := range rowsOf(t, c, name) {
		list = append(list, row[0])
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
	return list
}

// expectIDs checks that a table has the rows 0 to n-1, each once.
func expectIDs(t testing.TB, c catalog.Catalog, name string, n int) {
	t.Helper()
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	if got := ids(t, c, name); !slices.Equal(got, want) {
		t.Errorf("the table has %d rows, want %d, each once: %.300q", len(got), n, got)
	}
}

func mustImport(t testing.TB, target driver.Target, f *driver.File) {
	t.Helper()
	if err := target.Import(context.Background(), f); err != nil {
		t.Fatalf("%s: got %v, want no error", f.ID, err)
	}
}
