package parquet_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
	"github.com/forebay/forebay/internal/drivertest"
)

// fileOf returns a file of one plain slice.
func fileOf(id string, table driver.Table, rows ...[]string) *driver.File {
	return drivertest.OneSlice(id, table, rows...)
}

func expectRows(t *testing.T, target *parquet.Target, table string, want [][]string) {
	t.Helper()
	drivertest.Rows(t, table, rowsOf(t, target, table), want)
}

var (
	idColumn   = datatype.Column{Name: "id", Type: datatype.Int64, Required: true}
	atColumn   = datatype.Column{Name: "at", Type: datatype.Timestamp}
	textColumn = datatype.Column{Name: "text", Type: datatype.String}
)

// manyRows has rows of several row groups and days, and a column with few values.
func manyRows(from, n int) (rows [][]string) {
	for i := from; i < from+n; i++ {
		at := fmt.Sprintf("2026-11-%02dT07:47:19.%06dZ", 1+i%3, i)
		if i%97 == 0 {
			at = buffertest.Null
		}
		rows = append(rows, []string{fmt.Sprint(i), at, []string{"click", "view", "", "null"}[i%4]})
	}
	return rows
}

// An attempt that is repeated elsewhere, as after a lost disk, gives the same parts byte for byte.
func TestPartsDependOnTheRowsAlone(t *testing.T) {
	t.Parallel()
	table := driver.Table{ID: "events", Columns: []datatype.Column{idColumn, atColumn, textColumn}}
	var all [2]map[string]string
	for i := range all {
		target := mustTables(t, t.TempDir(), parquet.Options{PartitionBy: "at", RowGroup: 2000})
		drivertest.Import(t, target, fileOf("file-1", table, manyRows(0, 20_000)...))
		expectRows(t, target, table.ID, manyRows(0, 20_000))
		all[i] = make(map[string]string)
		for _, path := range partsOf(t, target, table.ID) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[i][filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))] = string(data)
		}
	}
	if len(all[0]) != 4 {
		t.Errorf("got %d parts, want one for each of 3 days and one without", len(all[0]))
	}
	for path, data := range all[0] {
		if all[1][path] != data {
			t.Errorf("%s: got other bytes from the second import, want the same", path)
		}
	}
}

// Engines skip row groups by their statistics in the footer, the bounds of each column, and how many values are NULL.
func TestRowGroupsHaveStatistics(t *testing.T) {
	table := driver.Table{ID: "events", Columns: []datatype.Column{idColumn, atColumn, textColumn, {Name: "f", Type: datatype.Float64}}}
	var rows [][]string
	for i, row := range manyRows(0, 10_000) {
		f := fmt.Sprint(i)
		if i%5 == 0 {
			f = "NaN"
		}
		rows = append(rows, append(row, f))
	}
	target := mustTables(t, t.TempDir(), parquet.Options{RowGroup: 4096})
	drivertest.Import(t, target, fileOf("file-1", table, rows...))
	p := opened(t, partsOf(t, target, table.ID)[0])
	if names := p.Schema().Columns(); fmt.Sprint(names) != "[[id] [at] [text] [f]]" {
		t.Errorf("columns %v, want them in the order of the table", names)
	}
	if n := len(p.RowGroups()); n != 3 {
		t.Fatalf("got %d row groups, want 3", n)
	}
	first := 0
	for _, g := range p.RowGroups() {
		n := int(g.NumRows())
		for i, want := range []struct{ least, most string }{
			{fmt.Sprint(first), fmt.Sprint(first + n - 1)},
			{},
			{"", "view"},
			{fmt.Sprint(first + (first%5+4)/5), fmt.Sprint(first + n - 1)},
		} {
			chunk := g.ColumnChunks()[i].(*pq.FileColumnChunk)
			least, most, ok := chunk.Bounds()
			if !ok {
				t.Errorf("rows from %d: column %d has no bounds", first, i)
			}
			if i == 3 && (math.IsNaN(least.Double()) || math.IsNaN(most.Double())) {
				t.Errorf("rows from %d: NaN is a bound: no value is between", first)
			}
			if i != 1 && i != 3 && (least.String() != want.least || most.String() != want.most) {
				t.Errorf("rows from %d: column %d is between %v and %v, want %v", first, i, least, most, want)
			}
		}
		first += n
	}
	dictionary := p.Metadata().RowGroups[0].Columns
	if dictionary[2].MetaData.DictionaryPageOffset == 0 || dictionary[0].MetaData.DictionaryPageOffset != 0 {
		t.Errorf("the text of 4 values has no dictionary, or the id has one")
	}
}

// A cell that is not a text of its type is damage or a mistake of the caller. The import names the rows and not their values, which may be
// secret.
func TestBadCellsAreNamed(t *testing.T) {
	for _, c := range []struct {
		typ          datatype.Type
		bad, reasons string
	}{
		{datatype.Int64, "1.5", "malformed"},
		{datatype.Timestamp, "2026-11-22", "malformed"},
		{datatype.Decimal(5, 2), "1000.00", "malformed"},
		{datatype.JSON, "\"\xff\"", "notUTF8"},
		{datatype.Untyped, buffertest.Null, "nullValue"},
	} {
		table := driver.Table{ID: "events", Columns: []datatype.Column{idColumn, {Name: "c", Type: c.typ}}}
		target := mustTables(t, t.TempDir(), parquet.Options{})
		good := map[datatype.Type]string{datatype.Int64: "1", datatype.Timestamp: "2026-11-22T00:00:00.000000Z", datatype.Decimal(5, 2): "1.00", datatype.JSON: "{}", datatype.Untyped: ""}[c.typ]
		rows := [][]string{{"1", good}, {"2", c.bad}, {"3", good}, {"4", c.bad}}
		err := target.Import(t.Context(), fileOf("file-1", table, rows...))
		var refused *driver.RowsError
		if !errors.As(err, &refused) || !refused.Complete || len(refused.Rows) != 2 || refused.Rows[1].Row != 3 || refused.Rows[1].Column != "c" || refused.Rows[1].Reason != c.reasons {
			t.Errorf("%s: got %v, want the rows 1 and 3 with the reason %s", c.typ, err, c.reasons)
		}
		if c.bad != buffertest.Null && strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: the error %q has the value", c.typ, err)
		}
		expectRows(t, target, table.ID, nil)
		drivertest.Import(t, target, fileOf("file-2", table, rows[0]))
		expectRows(t, target, table.ID, rows[:1])
	}
}

// A refused cell is named like any other if it decides the day of its row.
func TestBadDaysAreNamed(t *testing.T) {
	for typ, good := range map[datatype.Type]string{datatype.Timestamp: "2026-11-22T00:00:00.000000Z", datatype.Date: "2026-11-22"} {
		for _, bad := range []string{"", "x", "22.11.2026", "2026-11-22 10:00:00", "2026-13-01", "2026-13-01T00:00:00.000000Z"} {
			table := driver.Table{ID: "events", Columns: []datatype.Column{idColumn, {Name: "day", Type: typ}}}
			target := mustTables(t, t.TempDir(), parquet.Options{PartitionBy: "day"})
			rows := [][]string{{"1", good}, {"2", bad}, {"3", good}, {"4", bad}}
			err := target.Import(t.Context(), fileOf("file-1", table, rows...))
			var refused *driver.RowsError
			if !errors.As(err, &refused) || !refused.Complete || len(refused.Rows) != 2 || refused.Rows[0].Row != 1 || refused.Rows[1].Row != 3 ||
				refused.Rows[0].Column != "day" || refused.Rows[0].Reason != "malformed" {
				t.Errorf("%s %q: got %v, want the rows 1 and 3", typ, bad, err)
			}
			expectRows(t, target, table.ID, nil)
			drivertest.Import(t, target, fileOf("file-1", table, rows[0], rows[2]))
			expectRows(t, target, table.ID, [][]string{rows[0], rows[2]})
		}
	}
}

// A column of the table that is wider than the cells of a file stores them as its own type.
func TestWiderColumnOfTheTable(t *testing.T) {
	wide := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "a", Type: datatype.Decimal(21, 2)}, {Name: "b", Type: datatype.Decimal(9, 2)}}}
	narrow := driver.Table{ID: "events", Columns: []datatype.Column{{Name: "a", Type: datatype.Int64}, {Name: "b", Type: datatype.Decimal(4, 2)}}}
	target := mustTables(t, t.TempDir(), parquet.Options{})
	drivertest.Import(t, target, fileOf("file-1", wide, []string{"1.50", "1234567.00"}),
		fileOf("file-2", narrow, []string{"-9223372036854775808", "12.34"}, []string{buffertest.Null, buffertest.Null}))
	expectRows(t, target, "events", [][]string{{"1.50", "1234567.00"}, {"-9223372036854775808.00", "12.34"}, {buffertest.Null, buffertest.Null}})
}

// A file may have rows of more days than a process may have open files, and its days share a bound of memory.
func TestManyDays(t *testing.T) {
	t.Parallel()
	table := driver.Table{ID: "events", Columns: []datatype.Column{idColumn, atColumn}}
	var rows [][]string
	for i := range 1500 {
		rows = append(rows, []string{fmt.Sprint(i), fmt.Sprintf("%04d-%02d-01T00:00:00.000000Z", 1900+i%500/5, 1+i%5)})
	}
	target := mustTables(t, t.TempDir(), parquet.Options{PartitionBy: "at"})
	drivertest.Import(t, target, fileOf("file-1", table, rows...))
	expectRows(t, target, table.ID, rows)
	if n := len(partsOf(t, target, table.ID)); n != 500 {
		t.Errorf("got %d parts, want 500", n)
	}
}
