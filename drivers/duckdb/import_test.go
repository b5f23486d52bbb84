package duckdb_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/duckdb"
	"github.com/forebay/forebay/internal/clienttest"
	"github.com/forebay/forebay/internal/drivertest"
	"github.com/forebay/forebay/mapping"
)

// file returns a file of one plain slice.
func file(id string, table driver.Table, rows ...[]string) *driver.File {
	return drivertest.OneSlice(id, table, rows...)
}

func columns(of ...datatype.Type) (list []datatype.Column) {
	for i, typ := range of {
		list = append(list, datatype.Column{Name: fmt.Sprintf("c%d", i), Type: typ})
	}
	return list
}

func newTarget(t *testing.T) *duckdb.Target {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "a.duckdb"), duckdb.Options{Threads: 1})
}

func expectRows(t *testing.T, target *duckdb.Target, table string, want ...[]string) {
	t.Helper()
	if got := rows(t, target.DB(), table); !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %.2000q\nwant\n%.2000q", got, want)
	}
}

// What SQL sees of each type.
func TestTypes(t *testing.T) {
	table := driver.Table{ID: "t", Columns: columns(datatype.Untyped, datatype.String, datatype.Bool, datatype.Int64, datatype.Float64,
		datatype.Decimal(38, 4), datatype.Timestamp, datatype.Date, datatype.UUID, datatype.JSON, datatype.Bytes)}
	row := []string{
		"a\x00b", "", "true", "-9223372036854775808", "NaN", "-9999999999999999999999999999999999.9999", "2026-11-22T07:47:19.000001Z",
		"2026-11-22", "0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b", `{"a":"null"}`, "AAH/",
	}
	nulls := slices.Repeat([]string{buffertest.Null}, len(row))
	nulls[0] = "null" // untyped columns have no NULL
	target := newTarget(t)
	drivertest.Import(t, target, file("f", table, row, nulls))
	var got string
	err := target.DB().QueryRow(`SELECT concat_ws('|', typeof(c0), hex(c0), typeof(c1), length(c1), typeof(c2), c2, typeof(c3), c3, typeof(c4), c4, typeof(c5), c5,
			typeof(c6), epoch_us(c6), typeof(c7), c7 + 1, typeof(c8), c8, typeof(c9), c9 ->> '$.a', typeof(c10), hex(c10)) FROM t WHERE c1 = ''`).Scan(&got)
	want := "VARCHAR|610062|VARCHAR|0|BOOLEAN|true|BIGINT|-9223372036854775808|DOUBLE|nan|DECIMAL(38,4)|-9999999999999999999999999999999999.9999|" +
		"TIMESTAMP WITH TIME ZONE|1795333639000001|DATE|2026-11-23|UUID|0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b|JSON|null|BLOB|0001FF"
	if err != nil || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
	var order bool
	if err := target.DB().QueryRow("SELECT c8 > '00000000-0000-0000-0000-000000000000'::UUID AND c0 > 'a' FROM t WHERE c1 = ''").Scan(&order); err != nil || !order {
		t.Errorf("the stored values do not compare like others: %v", err)
	}
}

// DuckDB stores decimals in numbers of four sizes, and its appender mistakes a number for a different number if the scale is wrong.
func TestDecimals(t *testing.T) {
	var types []datatype.Type
	all := make([][]string, 3)
	for precision := 1; precision <= datatype.MaxPrecision; precision++ {
		for _, scale := range []int{0, 1, precision / 2, precision} {
			types = append(types, datatype.Decimal(precision, scale))
			digits := strings.Repeat("9", precision)
			whole, frac := digits[:precision-scale], digits[precision-scale:]
			most, least := whole, "1"
			if scale > 0 {
				most, least = cmp.Or(whole, "0")+"."+frac, "0."+strings.Repeat("0", scale-1)+"1"
			}
			all[0], all[1], all[2] = append(all[0], most), append(all[1], "-"+most), append(all[2], least)
		}
	}
	target := newTarget(t)
	table := driver.Table{ID: "t", Columns: columns(types...)}
	drivertest.Import(t, target, file("f", table, all...))
	for i, row := range rows(t, target.DB(), "t") {
		for j, got := range row { // DuckDB shows no zero where the type has no digit for it
			if want := all[i][j]; got != want && strings.Replace(got, ".", "0.", 1) != want {
				t.Errorf("got %s of a %s, want %s", got, types[j], want)
			}
		}
	}
}

// Texts with lengths around what DuckDB keeps in the vector itself and what fits into a block, in more rows than a vector has, with NULL between
// them.
func TestBatches(t *testing.T) {
	table := driver.Table{ID: "t", Columns: columns(datatype.Int64, datatype.String, datatype.Bytes)}
	var all [][]string
	for i := range 9000 {
		text := strings.Repeat(fmt.Sprint(i%10), i%30)
		if i%3000 == 2999 {
			text = strings.Repeat("long ", 300_000+i)
		}
		row := []string{fmt.Sprint(i), text, "AAECAwQFBgcICQoLDA0ODw=="}
		if i%7 == 0 {
			row[1+i%2] = buffertest.Null
		}
		all = append(all, row)
	}
	target := newTarget(t)
	drivertest.Import(t, target, file("f", table, all...))
	expectRows(t, target, "t", all...)
}

// All rows that the driver refuses are named. If a constraint refuses rows, the first one is.
func TestRefusedRows(t *testing.T) {
	target := newTarget(t)
	table := driver.Table{ID: "t", Columns: []datatype.Column{{Name: "id", Type: datatype.String, Required: true}, {Name: "x", Type: datatype.Float64}}}
	if err := target.Ensure(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	execute(t, target.DB(), "CREATE UNIQUE INDEX one ON t (id)")
	var good [][]string
	for i := range 5000 {
		good = append(good, []string{fmt.Sprint("id", i), "1"})
	}
	importRows := func(id string, rows [][]string) *driver.RowsError {
		t.Helper()
		var refused *driver.RowsError
		if err := target.Import(t.Context(), file(id, table, rows...)); !errors.As(err, &refused) {
			t.Fatalf("Import = %v, want refused rows", err)
		}
		if strings.Contains(refused.Error(), "secret") {
			t.Errorf("%v has a value", refused)
		}
		var n int
		if err := target.DB().QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil || n != 1 {
			t.Errorf("the table has %d rows, want the row from before, %v", n, err)
		}
		if n, err := target.CountFile(t.Context(), table, id); n != 0 || err != nil {
			t.Errorf("CountFile = %d, %v", n, err)
		}
		return refused
	}
	drivertest.Import(t, target, file("before", table, []string{"secret", "0"}))
	refused := importRows("own", slices.Insert(slices.Clone(good), 4000, []string{buffertest.Null, "1"}, []string{"b\xff", "1"}, []string{"c", "x"}))
	want := []string{`row 4000, column "id": nullValue`, `row 4001, column "id": notUTF8`, `row 4002, column "x": malformed`}
	for i, w := range want {
		if len(refused.Rows) != len(want) || refused.Rows[i].String() != w {
			t.Fatalf("got %v, want %s", refused.Rows, want)
		}
	}
	for _, at := range []int{0, 2048, 4999} {
		for what, row := range map[string][]string{"a row of before": {"secret", "1"}, "a row of the file": {"id4999", "1"}} {
			rows := slices.Insert(slices.Clone(good), at, row)
			wantRow := int64(at)
			if what == "a row of the file" {
				wantRow = 5000
			}
			refused := importRows("unique", rows)
			if len(refused.Rows) != 1 || refused.Rows[0].Row != wantRow || refused.Rows[0].Reason != "constraint" || refused.Complete {
				t.Errorf("%s at %d: got %v, want row %d", what, at, refused.Rows, wantRow)
			}
		}
	}
	for _, c := range []struct {
		typ datatype.Type
		bad []string
	}{
		{datatype.Decimal(6, 2), []string{"10000.00", "-99999.99", "1.234", "1", ""}},
		{datatype.Decimal(38, 0), []string{"1" + strings.Repeat("0", 38)}},
		{datatype.Int64, []string{"9223372036854775808", "-9223372036854775809", ""}},
		{datatype.Timestamp, []string{"10000-01-01T00:00:00.000000Z", "0000-12-31T00:00:00.000000Z", "2026-02-29T00:00:00.000000Z", "infinity"}},
		{datatype.Date, []string{"10000-01-01", "2026-13-01", ""}},
	} {
		table := driver.Table{ID: string(c.typ), Columns: columns(datatype.String, c.typ)}
		all := [][]string{{"first", buffertest.Null}}
		for _, bad := range c.bad {
			all = append(all, []string{"bad", bad})
		}
		var refused *driver.RowsError
		if err := target.Import(t.Context(), file("range", table, all...)); !errors.As(err, &refused) || len(refused.Rows) != len(c.bad) {
			t.Errorf("%s out of range: got %v, want %d refused rows", c.typ, err, len(c.bad))
		} else if last := refused.Rows[len(c.bad)-1]; last.Row != int64(len(c.bad)) || last.Column != "c1" || last.Reason != "malformed" {
			t.Errorf("%s out of range: the last row is %v", c.typ, last)
		}
		expectRows(t, target, table.ID)
	}
	many := importRows("many", slices.Repeat([][]string{{buffertest.Null, "1"}}, 3000))
	if len(many.Rows) != driver.MaxRowErrors {
		t.Errorf("got %d refused rows, want %v", len(many.Rows), driver.MaxRowErrors)
	}
	drivertest.Import(t, target, file("after", table, good...))
}

// Many extend and fill one table at once. The conflicts of DuckDB do not reach them, nor its crash when a column is added while rows
// are committed.
func TestTableGrowsDuringImports(t *testing.T) {
	target := newTarget(t)
	var wg sync.WaitGroup
	const writers, files = 3, 12
	for w := range writers {
		wg.Go(func() {
			for i := range files {
				table := driver.Table{ID: "t", Extend: true, Columns: []datatype.Column{{Name: "id", Type: datatype.String}, {Name: fmt.Sprint("c", i), Type: datatype.Int64}}}
				id := fmt.Sprintf("file-%d-%d", w, i)
				if err := target.Import(t.Context(), file(id, table, []string{id, "1"}, []string{id, buffertest.Null})); err != nil {
					t.Errorf("%s: got %v, want no error", id, err)
				}
				if n, err := target.CountFile(t.Context(), table, id); n != 2 || err != nil {
					t.Errorf("%s has %d rows, %v", id, n, err)
				}
			}
		})
	}
	wg.Wait()
	var n, ids int
	if err := target.DB().QueryRow("SELECT count(*), count(DISTINCT id) FROM t").Scan(&n, &ids); err != nil || n != 2*writers*files || ids != writers*files {
		t.Errorf("got %d rows of %d files, want %d of %d: %v", n, ids, 2*writers*files, writers*files, err)
	}
}

// A call for a file that another call imports, or rules out, waits for the end of the other call, whose id cannot be seen, and cannot be
// inserted.
func TestCallsOfOneFile(t *testing.T) {
	for what, second := range map[string]func(*duckdb.Target, *driver.File) error{
		"import": func(target *duckdb.Target, f *driver.File) error { return target.Import(t.Context(), f) },
		"void": func(target *duckdb.Target, f *driver.File) error {
			if imported, err := target.Void(t.Context(), f.Table, f.ID); err != nil || !imported {
				return fmt.Errorf("the file is imported: %t, %w", imported, err)
			}
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			target := newTarget(t)
			table := driver.Table{ID: "t", Columns: columns(datatype.Int64)}
			if err := target.Ensure(t.Context(), table); err != nil {
				t.Fatal(err)
			}
			f := file("f", table, []string{"1"})
			slow, inside, release := *f, make(chan struct{}), make(chan struct{})
			slow.OpenSlice = func(ctx context.Context, o driver.Object) (io.ReadCloser, error) {
				close(inside)
				<-release
				return f.OpenSlice(ctx, o)
			}
			first, other := make(chan error, 1), make(chan error, 1)
			go func() { first <- target.Import(t.Context(), &slow) }()
			<-inside
			go func() { other <- second(target, f) }()
			for range 200 { // a call that does not wait fails meanwhile
				if n, err := target.CountFile(t.Context(), table, f.ID); n != 0 || err != nil {
					t.Errorf("CountFile = %d, %v, before the commit", n, err)
				}
				if len(other) > 0 {
					t.Error("the second call has ended before the first")
					break
				}
			}
			close(release)
			if err := errors.Join(<-first, <-other); err != nil {
				t.Error(err)
			}
			if n, err := target.CountFile(t.Context(), table, f.ID); n != 1 || err != nil {
				t.Errorf("CountFile = %d, %v, want 1", n, err)
			}
		})
	}
}

// Two engines feed one table, which a later definition extends.
func TestEngines(t *testing.T) {
	target := newTarget(t)
	columns := mapping.Columns{
		mapping.Path("id", "id", mapping.DataType(datatype.Int64), mapping.Required()),
		mapping.Path("name", "name", mapping.DataType(datatype.String)),
	}
	more := append(columns[:2:2], mapping.Path("total", "total", mapping.DataType(datatype.Decimal(10, 2))))
	var engines []*forebay.Engine
	for _, columns := range []mapping.Columns{columns, more} {
		engine := clienttest.Define(t, t.TempDir(), target, forebay.Table{ID: "shop.orders", Extend: true, Columns: columns})
		defer engine.Close()
		engines = append(engines, engine)
	}
	var wg sync.WaitGroup
	for n, engine := range engines {
		wg.Go(func() {
			for i := range 10 {
				if _, err := engine.Ingest(t.Context(), "shop", mapping.JSON(fmt.Appendf(nil, `{"id":%d,"name":"a \"name\"","total":1.5}`, 10*n+i))); err != nil {
					t.Error(err)
				}
			}
			if err := engine.Flush(t.Context(), "shop"); err != nil {
				t.Error(err)
			}
			if report, err := engine.Verify(t.Context()); err != nil {
				t.Errorf("Verify = %+v, %v", report, err)
			}
		})
	}
	wg.Wait()
	var got string
	err := target.DB().QueryRow(`SELECT concat_ws(' ', count(*), sum(id), count(DISTINCT name), count(total), sum(total)) FROM "shop.orders"`).Scan(&got)
	if want := "20 190 1 10 15.00"; err != nil || got != want {
		t.Errorf("got %s, want %s: %v", got, want, err)
	}
}
