package sqltest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/parquet"
)

// The query of docs/drivers/parquet.md.
const readParquet = `read_parquet('%s/**/*.parquet', union_by_name = true, hive_partitioning = true)`

// DuckDB reads each type of a part, NULL, the empty text and the words for NULL apart.
func TestDuckDBReadsParquetTypes(t *testing.T) {
	target, err := parquet.Tables(t.TempDir(), parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		typ    datatype.Type
		name   string // in DuckDB
		shown  string // the value as text; %s is the column
		values []string
		want   []string // nil for the values
	}{
		{typ: datatype.Untyped, name: "VARCHAR", values: []string{"", "null", "a\r\n\"b\"\x00", `\N`}},
		{typ: datatype.String, name: "VARCHAR", values: []string{"", "null", "NULL", "日本語", null}},
		{typ: datatype.Bool, name: "BOOLEAN", values: []string{"true", "false", null}},
		{typ: datatype.Int64, name: "BIGINT", values: []string{"9007199254740993", "-9223372036854775808", "9223372036854775807", null}},
		{typ: datatype.Float64, name: "DOUBLE", values: []string{"0.1", "-1.5", "1e+21", "1e-7", "NaN", "Infinity", null}, want: []string{"0.1", "-1.5", "1e+21", "1e-07", "nan", "inf", null}},
		{typ: datatype.Decimal(9, 2), name: "DECIMAL(9,2)", values: []string{"0.00", "-1234567.89", null}},
		{typ: datatype.Decimal(18, 4), name: "DECIMAL(18,4)", values: []string{"0.0001", "-99999999999999.9999", null}},
		{typ: datatype.Decimal(38, 4), name: "DECIMAL(38,4)", values: []string{"1.1000", "-9999999999999999999999999999999999.9999", null}},
		{
			typ: datatype.Timestamp, name: "TIMESTAMP WITH TIME ZONE", shown: `strftime(%s AT TIME ZONE 'UTC', '%%Y-%%m-%%dT%%H:%%M:%%S.%%fZ')`,
			values: []string{"2026-11-22T07:47:19.000001Z", "1969-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z", null},
		},
		{typ: datatype.Date, name: "DATE", values: []string{"2026-11-22", "0001-01-01", "9999-12-31", null}},
		{typ: datatype.UUID, name: "UUID", values: []string{"0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b", "00000000-0000-0000-0000-000000000000", null}},
		{typ: datatype.JSON, name: "JSON", values: []string{`{"a":[1,null,"null"]}`, `"text"`, "[]", null}},
		{typ: datatype.Bytes, name: "BLOB", shown: "base64(%s)", values: []string{"", "AA==", "/+8=", null}},
	} {
		table := driver.Table{ID: "t." + string(c.typ), Columns: []datatype.Column{{Name: "n", Type: datatype.Int64}, {Name: "c", Type: c.typ}}}
		var rows [][]string
		for i, v := range c.values {
			rows = append(rows, []string{fmt.Sprint(i), v})
		}
		if err := target.Import(t.Context(), file("file-1", table, rows...)); err != nil {
			t.Fatal(err)
		}
		shown := "c::VARCHAR"
		if c.shown != "" {
			shown = fmt.Sprintf(c.shown, "c")
		}
		if c.want == nil {
			c.want = c.values
		}
		want := ""
		for _, v := range c.want {
			if v == null {
				want += fmt.Sprintf("%q,NULL\n", c.name)
			} else {
				want += fmt.Sprintf("%q,%q\n", c.name, v)
			}
		}
		got := ask(t, "SELECT typeof(c), "+shown+" FROM "+fmt.Sprintf(readParquet, target.Path(table.ID))+" ORDER BY n")
		if got != want {
			t.Errorf("%q: got\n%swant\n%s", c.typ, got, want)
		}
	}
}

// One glob reads the parts of several days, of three versions of the table, and merged parts, and no other file.
func TestDuckDBReadsParquetTables(t *testing.T) {
	target, err := parquet.Tables(t.TempDir(), parquet.Options{PartitionBy: "at"})
	if err != nil {
		t.Fatal(err)
	}
	columns := []datatype.Column{
		{Name: "id", Type: datatype.Int64}, {Name: "at", Type: datatype.Timestamp}, {Name: "text", Type: datatype.String}, {Name: "price", Type: datatype.Decimal(10, 2)},
	}
	version := func(n int) driver.Table {
		return driver.Table{ID: "in.c-test.t", Extend: true, Columns: slices.Clone(columns[:n])}
	}
	const first, second = "2026-11-22T23:59:59.999999Z", "2026-11-23T00:00:00.000000Z"
	imports := []*driver.File{
		file("file-1", version(2), []string{"1", first}, []string{"2", second}),
		file("file-2", version(3), []string{"3", first, ""}, []string{"4", null, null}),
		file("file-3", version(4), []string{"5", first, "x", "0.10"}, []string{"6", second, null, null}),
		file("file-4", version(2), []string{"7", second}), // late
	}
	for i := range 20 {
		imports = append(imports, file(fmt.Sprintf("more-%02d", i), version(4), []string{"100", first, "x", "1.00"}))
	}
	for _, f := range imports {
		if err := target.Import(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"notes.txt", "half.parquet.tmp"} {
		if err := os.WriteFile(filepath.Join(target.Path("in.c-test.t"), name), []byte("PAR1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := `"1",NULL,NULL,"2026-11-22"
"2",NULL,NULL,"2026-11-23"
"3","",NULL,"2026-11-22"
"4",NULL,NULL,"__HIVE_DEFAULT_PARTITION__"
"5","x","0.10","2026-11-22"
"6",NULL,NULL,"2026-11-23"
"7",NULL,NULL,"2026-11-23"
`
	from := fmt.Sprintf(readParquet, target.Path("in.c-test.t"))
	for _, merged := range []bool{false, true} {
		if merged {
			if err := target.Compact(t.Context(), version(4)); err != nil {
				t.Fatal(err)
			}
			if parts, _ := filepath.Glob(filepath.Join(target.Path("in.c-test.t"), "*", "*~*.parquet")); len(parts) == 0 {
				t.Fatal("nothing was merged")
			}
		}
		if got := ask(t, "SELECT id::VARCHAR, text, price::VARCHAR, dt::VARCHAR FROM "+from+" WHERE id <> 100 ORDER BY id"); got != want {
			t.Errorf("merged %t: got\n%swant\n%s", merged, got, want)
		}
		if got := ask(t, "SELECT count(*), sum(price)::VARCHAR FROM "+from+" WHERE dt = '2026-11-22'"); got != "\"23\",\"20.10\"\n" {
			t.Errorf("merged %t: of one day %s", merged, got)
		}
	}
}

// DuckDB leaves out row groups by their bounds, and finds each row all the same.
func TestDuckDBPrunesParquet(t *testing.T) {
	target, err := parquet.Tables(t.TempDir(), parquet.Options{RowGroup: 10})
	if err != nil {
		t.Fatal(err)
	}
	table := driver.Table{ID: "t", Columns: []datatype.Column{
		{Name: "d", Type: datatype.Decimal(38, 2)}, {Name: "s", Type: datatype.Decimal(12, 2)}, {Name: "f", Type: datatype.Float64}, {Name: "text", Type: datatype.String},
	}}
	long := strings.Repeat("日", 100)
	var rows [][]string
	for i := range 100 {
		n := fmt.Sprintf("%d.50", i-50)
		rows = append(rows, []string{n, n, strings.TrimSuffix(n, "0"), fmt.Sprintf("%s%03d", long, i)})
	}
	rows[7][2], rows[50][2] = "NaN", "-0"
	if err := target.Import(t.Context(), file("file-1", table, rows...)); err != nil {
		t.Fatal(err)
	}
	from := " FROM " + fmt.Sprintf(readParquet, target.Path(table.ID)) + " WHERE "
	for where, want := range map[string]string{
		"d = -7.50": "1", "d < 0": "50", "s = -7.50": "1", "s < 0": "50", "f = 0": "1", "f > 48": "2", "text = '" + long + "042'": "1", "text > '" + long + "097'": "2",
	} {
		if got := ask(t, "SELECT count(*)"+from+where); got != fmt.Sprintf("%q\n", want) {
			t.Errorf("got %.40s: %s rows, want %s", where, strings.TrimSpace(got), want)
		}
	}

	// Whoever reads a row group that the statistics rule out meets zeros in place of its pages.
	parts, err := filepath.Glob(filepath.Join(target.Path(table.ID), "*.parquet"))
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	part, err := os.OpenFile(parts[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	info, err := part.Stat()
	if err != nil {
		t.Fatal(err)
	}
	read, err := parquetgo.OpenFile(part, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	groups := read.Metadata().RowGroups
	for i, group := range groups {
		if i == 4 { // rows -10 to -1
			continue
		}
		for _, column := range group.Columns {
			from := column.MetaData.DataPageOffset
			if at := column.MetaData.DictionaryPageOffset; at > 0 {
				from = min(from, at)
			}
			if _, err := part.WriteAt(make([]byte, column.MetaData.TotalCompressedSize), from); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, where := range []string{"d = -7.50", "s = -7.50", "f = -7.5"} { // texts that are alike in the first bytes are not told apart
		if got := ask(t, "SELECT text"+from+where); got != fmt.Sprintf("%q\n", long+"043") {
			t.Errorf("%.40s reads %q, want fmt.Sprintf(\"%%q\\n\", long+\"043\")", where, got)
		}
	}
	if len(groups) != 10 {
		t.Errorf("got %d row groups, want 10", len(groups))
	}
}
