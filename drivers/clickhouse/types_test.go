package clickhouse

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/internal/drivertest"
)

var values = []struct {
	typ    datatype.Type
	column string // the type of the column. Empty means the type that Ensure creates
	cells  []string
}{
	{datatype.Untyped, "", []string{"", " ", "null", "a\r\nb", `\N`, `\.`, `"`, "'", "\x00", "\xff\xfe", "日本語", "🙂", "ᴺᵁᴸᴸ", strings.Repeat("long", 50_000)}},
	{datatype.String, "", []string{"", " ", "ends with spaces  ", "null", "NULL", "a\r\nb", "\t", `\N`, `\\N`, `\.`, `"`, `'); DROP TABLE x; --`, "007", "a\x00b", ","}},
	{datatype.Bool, "", []string{"true", "false"}},
	{datatype.Int64, "", []string{"0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808"}},
	{datatype.Float64, "", []string{
		"0", "-0", "0.1", "1e+21", "1e-7", "5e-324", "2.2250738585072014e-308", "1.7976931348623157e+308", "-1.7976931348623157e+308", "123456.789", "NaN", "Infinity", "-Infinity",
	}},
	{datatype.Decimal(38, 4), "", []string{"0.0000", "-0.0001", "0.1000", "100000000.0001", "-9999999999999999999999999999999999.9999"}},
	{datatype.Decimal(38, 0), "", []string{"0", "1", "-100000000", "99999999999999999999999999999999999999"}},
	{datatype.Decimal(38, 38), "", []string{"0." + strings.Repeat("0", 38), "-0." + strings.Repeat("9", 38), "0." + strings.Repeat("0", 37) + "1"}},
	{datatype.Decimal(9, 6), "", []string{"0.000001", "0.010000", "100.000100", "-999.999999"}},
	{datatype.Timestamp, "", []string{
		"2026-11-22T07:47:19.000001Z", "1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000000Z", "1900-01-01T00:00:00.000000Z", "2299-12-31T23:59:59.999999Z",
		"2038-01-19T03:14:08.000000Z", "1969-12-31T23:59:59.000000Z", "1930-06-01T12:00:00.500000Z",
	}},
	{datatype.Date, "", []string{"2026-11-22", "1900-01-01", "2299-12-31", "2000-02-29", "1969-12-31"}},
	{datatype.UUID, "", []string{"00000000-0000-0000-0000-000000000000", "0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b", "ffffffff-ffff-ffff-ffff-ffffffffffff"}},
	{datatype.JSON, "", []string{`{"a":[1,null,"null"]}`, `{"b":1,"a":1.50,"a":2}`, `"text"`, "12", "[]", `""`, `"\""`, "1e400", `"\u0000"`, `{"a\\b":"\t"}`, "null"}},
	{datatype.Bytes, "", []string{"", "AA==", "/+8=", "aGVsbG8=", "XG4J"}},

	// Tables that the driver did not create.
	{datatype.Int64, "Decimal(19, 0)", []string{"0", "-1", "-9223372036854775808"}},
	{datatype.Decimal(9, 2), "Decimal(20, 2)", []string{"0.00", "-1234567.80"}},
	{datatype.String, "LowCardinality(String)", []string{"", "a"}},
	{datatype.Untyped, "LowCardinality(String)", []string{"", "a"}},
	{datatype.JSON, "String", []string{`{"b":1,"a":null}`, "12"}},
	{datatype.Bytes, "String", []string{"aGVsbG8="}},
	{datatype.Timestamp, "DateTime64(6, 'Europe/Prague')", []string{"2026-03-29T02:30:00.000000Z", "1969-12-31T23:59:59.999999Z"}},
}

// Each value of each type is read back as it was, next to NULL.
func TestTypes(t *testing.T) {
	target := open(t, Options{})
	for i, v := range values {
		name := fmt.Sprintf("%s %d", v.typ, i)
		tbl := table(name, required(col("n", datatype.Int64)), col("v", v.typ))
		if v.column != "" {
			column := "Nullable(" + v.column + ")"
			if inner, found := strings.CutPrefix(v.column, "LowCardinality("); found {
				column = "LowCardinality(Nullable(" + inner + ")"
			}
			server.Exec(t, "CREATE TABLE "+target.table(name)+" (n Int64, v "+column+") ENGINE = MergeTree ORDER BY n")
		}
		var rows [][]string
		for j, cell := range append(v.cells, buffertest.Null) {
			rows = append(rows, []string{fmt.Sprint(j), cell})
		}
		mustImport(t, target, newFile("file-"+fmt.Sprint(i), tbl, rows...))
		if v.typ == datatype.Bytes && v.column != "" || v.typ == datatype.Bytes {
			want := rows
			if v.column != "" {
				want = [][]string{{"0", "hello"}, {"1", buffertest.Null}} // the table does not say that these are bytes
			}
			expectRows(t, target, name, want...)
			continue
		}
		expectRows(t, target, name, rows...)
	}
}

// With NativeJSON documents are stored with the type JSON. The server refuses a row whose value is no object.
func TestNativeJSON(t *testing.T) {
	target := open(t, Options{NativeJSON: true})
	tbl := table("docs", required(col("n", datatype.Int64)), col("doc", datatype.JSON))
	mustImport(t, target, newFile("file-1", tbl, []string{"1", `{"a":{"b":"c"}}`}, []string{"2", buffertest.Null}))
	if got := server.Rows(t, "SELECT toString(doc.a.b) FROM "+target.table("docs")+" ORDER BY n")[0][0]; got == nil || *got != "c" {
		t.Errorf("doc.a.b is %v, want c", got)
	}
	err := target.Import(t.Context(), newFile("file-2", tbl, []string{"3", `{}`}, []string{"4", `"secret"`}))
	var refused *driver.RowsError
	if !errors.As(err, &refused) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Import of a document that is no object = %v, want a *driver.RowsError without the value", err)
	}
	expectCount(t, target, tbl, "file-2", 0)
}

func expectCount(tb testing.TB, target *Target, tbl driver.Table, file string, want int64) {
	tb.Helper()
	if n, err := target.CountFile(tb.Context(), tbl, file); err != nil || n != want {
		tb.Errorf("CountFile(%s) = %d, %v, want %d", file, n, err, want)
	}
}

// Tables that would change or lose rows are refused, and the error says what to do.
func TestExistingTables(t *testing.T) {
	target := open(t, Options{})
	tbl := table("t", required(col("id", datatype.Int64)), col("name", datatype.String))
	create := func(columns, engine string) {
		t.Helper()
		server.Exec(t, "DROP TABLE IF EXISTS "+target.table("t")+" SYNC")
		server.Exec(t, "CREATE TABLE "+target.table("t")+" ("+columns+") ENGINE = "+engine)
	}
	const columns = "id Int64, name Nullable(String)"
	create(columns, "SummingMergeTree ORDER BY id")
	drivertest.Permanent(t, "Ensure of a SummingMergeTree", target.Ensure(t.Context(), tbl), "SummingMergeTree", "materialized view")
	create(columns, "Memory")
	drivertest.Permanent(t, "Ensure of a table in memory", target.Ensure(t.Context(), tbl), "Memory")
	for _, other := range []string{"id Int32, name Nullable(String)", "id Int64, name String", "id Int64, name Nullable(FixedString(4))", "id Int64", "id Int64, name Nullable(String), more Int8"} {
		create(other, "MergeTree ORDER BY id")
		var schema *driver.SchemaError
		if err := target.Ensure(t.Context(), tbl); !errors.As(err, &schema) {
			t.Errorf("Ensure of a table with %s = %v, want a *driver.SchemaError", other, err)
		}
	}
	create(columns+", at DateTime DEFAULT now(), twice Int64 MATERIALIZED id * 2, alias Int64 ALIAS id", "MergeTree ORDER BY id PARTITION BY id % 2")
	f := newFile("file-1", tbl, []string{"1", "a"}, []string{"2", buffertest.Null})
	for range 3 {
		f.Progress = nil // the window of the table was 0, and the driver has set it
		mustImport(t, target, f)
	}
	expectCount(t, target, tbl, f.ID, 2)
	full := *server.Rows(t, "SELECT engine_full FROM system.tables WHERE name = 't' AND database = "+literal(target.client.database))[0][0]
	if !strings.Contains(full, "fsync_after_insert = 1") || !strings.Contains(full, "non_replicated_deduplication_window = 10000") {
		t.Errorf("the table is %s, want a window and settings that make it durable", full)
	}
}

// New tables have the key, the partitions and the expiry of the options.
func TestTableOptions(t *testing.T) {
	target := open(t, Options{OrderBy: []string{"user", "at", "absent"}, PartitionBy: "toYYYYMM(at)", TTL: "toDateTime(at) + INTERVAL 10 YEAR", Engine: "ReplacingMergeTree"})
	tbl := table("t", col("user", datatype.String), required(col("at", datatype.Timestamp)))
	mustImport(t, target, newFile("file-1", tbl, []string{"a", "2026-11-22T07:47:19.000001Z"}, []string{buffertest.Null, "2026-12-22T07:47:19.000001Z"}))
	got := server.Rows(t, "SELECT engine, sorting_key, partition_key, engine_full FROM system.tables WHERE name = 't' AND database = "+literal(target.client.database))[0]
	if *got[0] != "ReplacingMergeTree" || *got[1] != "user, at" || *got[2] != "toYYYYMM(at)" || !strings.Contains(*got[3], " TTL toDateTime(at) + toIntervalYear(10)") {
		t.Errorf("the table is %q, %q, %q, %q", *got[0], *got[1], *got[2], *got[3])
	}
	if taken, err := target.TakenAway(t.Context(), tbl, "file-1"); err != nil || !taken {
		t.Errorf("TakenAway = %v, %v for a table whose rows expire, want true", taken, err)
	}
	byTime := open(t, Options{})
	mustEnsure(t, byTime, table("t", col("first", datatype.Date), required(col("second", datatype.Timestamp)), col("third", datatype.Timestamp)))
	if got := *server.Rows(t, "SELECT sorting_key FROM system.tables WHERE name = 't' AND database = "+literal(byTime.client.database))[0][0]; got != "second" {
		t.Errorf("the ordering key is %q by default, want the first required time", got)
	}
}

// Messages have no values of cells.
func TestMessagesHaveNoValues(t *testing.T) {
	target := open(t, Options{})
	tbl := table("t", required(col("id", datatype.Int64)), col("name", datatype.String))
	mustEnsure(t, target, tbl)
	server.Exec(t, "ALTER TABLE "+target.table("t")+" ADD CONSTRAINT short CHECK length(name) < 5")
	for name, rows := range map[string][][]string{
		"a violated constraint": {{"1", "a"}, {"2", "secret"}}, "a damaged cell": {{"1", "a"}, {"secret", "a"}}, "a missing value": {{buffertest.Null, "secret"}},
	} {
		err := target.Import(t.Context(), newFile("file "+name, tbl, rows...))
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), "secret") {
			t.Errorf("%s: Import = %v, want an error without the value", name, err)
		}
		expectCount(t, target, tbl, "file "+name, 0)
	}
}
