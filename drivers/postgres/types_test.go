package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay/forebay/buffer/buffertest"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
)

var values = []struct {
	typ    datatype.Type
	column string // the type of the column. Empty means the type of Ensure
	cells  []string
}{
	{datatype.Untyped, "", []string{"", " ", "null", "a\r\nb", `\N`, `\.`, `"`, "日本語", strings.Repeat("long", 50_000)}},
	{datatype.String, "", []string{"", " ", "null", "a\r\nb", `\N`, `\.`, `"`, "007"}},
	{datatype.Bool, "", []string{"true", "false"}},
	{datatype.Int64, "", []string{"0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808"}},
	{datatype.Float64, "", []string{"0", "-0", "0.1", "1e+21", "1e-7", "5e-324", "1.7976931348623157e+308", "NaN", "Infinity", "-Infinity"}},
	{datatype.Decimal(38, 4), "", []string{
		"0.0000", "1.0000", "-0.0001", "0.1000", "10000.0000", "100000000.0001", "-9999999999999999999999999999999999.9999", "12345.6789",
	}},
	{datatype.Decimal(38, 0), "", []string{"0", "1", "10", "9999", "10000", "-100000000", "99999999999999999999999999999999999999"}},
	{datatype.Decimal(38, 38), "", []string{"0." + strings.Repeat("0", 38), "-0." + strings.Repeat("9", 38), "0." + strings.Repeat("0", 37) + "1"}},
	{datatype.Decimal(9, 1), "", []string{"0.0", "0.5", "-10000.0", "99999999.9"}},
	{datatype.Decimal(9, 6), "", []string{"0.000001", "0.010000", "100.000100", "-999.999999"}},
	{datatype.Timestamp, "", []string{"2026-11-22T07:47:19.000001Z", "1969-12-31T23:59:59.999999Z", "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"}},
	{datatype.Date, "", []string{"2026-11-22", "0001-01-01", "9999-12-31", "2000-02-29", "1999-12-31"}},
	{datatype.UUID, "", []string{"00000000-0000-0000-0000-000000000000", "0191f6a8-1c2d-7e3f-8a9b-0c1d2e3f4a5b"}},
	{datatype.JSON, "", []string{`{"a":[1,null,"null"]}`, `{"b":1,"a":1.50,"a":2}`, `"text"`, "12", "[]", `""`, `"\""`, "1e400", `"\ud83d\ude00"`}},
	{datatype.Bytes, "", []string{"", "AA==", "/+8=", "aGVsbG8="}},

	// Tables made by another program.
	{datatype.JSON, "jsonb", []string{`{"a": [1, null, "null"]}`, `"text"`, "12", "[]"}},
	{datatype.Int64, "numeric(19,0)", []string{"0", "-1", "10000", "-9223372036854775808"}},
	{datatype.Int64, "numeric", []string{"0", "-1", "120000", "9223372036854775807"}},
	{datatype.Decimal(9, 2), "numeric(20,2)", []string{"0.00", "-1234567.80"}},
	{datatype.Decimal(9, 2), "numeric", []string{"0.00", "-1234567.80"}},
	{datatype.Timestamp, "timestamptz(6)", []string{"2026-11-22T07:47:19.000001Z"}},
	{datatype.String, "varchar(6)", []string{"", "žluťou", "  "}},
	// In the text form.
	{datatype.String, "mood", []string{"glad", "so \"so\""}},
	{datatype.String, "inet", []string{"192.0.2.1/32", "2001:db8::1/128"}},
	{datatype.Untyped, "inet", []string{"192.0.2.1/32"}},
	{datatype.String, "short_text", []string{"", "a\r\nb", `\.`, `"`, "null"}},
	{datatype.Int64, "positive", []string{"1", "9223372036854775807"}},
	{datatype.Bytes, "some_bytes", []string{"", "AA==", "/+8="}},
}

const userTypes = `CREATE TYPE mood AS ENUM ('glad', 'so "so"'); CREATE DOMAIN short_text AS text CHECK (length(VALUE) < 10);
	CREATE DOMAIN positive AS bigint CHECK (VALUE > 0); CREATE DOMAIN some_bytes AS bytea`

// Each value of each type comes back unchanged, as does NULL.
func TestTypes(t *testing.T) {
	target := open(t, Options{})
	exec(t, target, userTypes)
	for _, v := range values {
		name := strings.ReplaceAll(string(v.typ)+" "+v.column, "(", "[")
		tbl := table(name, required(col("n", datatype.Int64)), col("v", v.typ))
		if v.column != "" {
			exec(t, target, `CREATE TABLE "`+name+`" (n bigint NOT NULL, v `+v.column+")")
		}
		var rows [][]string
		for _, cell := range v.cells {
			rows = append(rows, []string{"1", cell})
		}
		if v.typ != datatype.Untyped {
			rows = append(rows, []string{"2", buffertest.Null})
		}
		mustImport(t, target, newFile("file "+name, tbl, rows...))
		expectRows(t, target, name, rows...)
	}
}

// A column that would change values, or hold others, is refused.
func TestOtherTypes(t *testing.T) {
	target := open(t, Options{})
	exec(t, target, userTypes)
	for i, c := range []struct {
		typ    datatype.Type
		column string
		says   datatype.Type
	}{
		{datatype.Untyped, "text", datatype.String},
		{datatype.String, "varchar", datatype.Untyped},
		{datatype.String, "char(6)", "character(6)"},
		{datatype.String, "name", "name"},
		{datatype.String, "integer", "integer"},
		{datatype.String, "json", datatype.JSON},
		{datatype.Int64, "integer", "integer"},
		{datatype.Int64, "double precision", datatype.Float64},
		{datatype.Int64, "numeric(18,0)", datatype.Decimal(18, 0)},
		{datatype.Int64, "text", datatype.String},
		{datatype.Float64, "real", "real"},
		{datatype.Float64, "numeric", "numeric"},
		{datatype.Decimal(9, 2), "numeric(9,3)", datatype.Decimal(9, 3)},
		{datatype.Decimal(9, 2), "numeric(8,2)", datatype.Decimal(8, 2)},
		{datatype.Decimal(9, 2), "numeric(5,-2)", datatype.Decimal(5, -2)},
		{datatype.Timestamp, "timestamp", "timestamp without time zone"},
		{datatype.Timestamp, "timestamptz(3)", "timestamp(3) with time zone"},
		{datatype.Int64, "mood", "mood"},
		{datatype.Bytes, "text[]", "text[]"},
	} {
		id := "other " + string(rune('a'+i))
		exec(t, target, `CREATE TABLE "`+id+`" (v `+c.column+")")
		for _, extend := range []bool{false, true} {
			tbl := table(id, col("v", c.typ))
			tbl.Extend = extend
			var schema *driver.SchemaError
			err := target.Import(t.Context(), newFile("file "+id, tbl, []string{"1"}))
			if !errors.As(err, &schema) || len(schema.Got) != 1 || strings.TrimPrefix(string(schema.Got[0].Type), target.options.Schema+".") != string(c.says) {
				t.Errorf("%s into %s = %v, want a *driver.SchemaError with the type %s", c.typ, c.column, err, c.says)
			}
		}
		expectRows(t, target, id)
	}
}

func TestJSONB(t *testing.T) {
	target := open(t, Options{JSONB: true})
	tbl := table("events", col("body", datatype.JSON))
	mustImport(t, target, newFile("file-1", tbl, []string{`{"b":1,"a":1.50,"a":2}`}))
	expectRows(t, target, "events", []string{`{"a": 2, "b": 1}`})
	err := target.Import(t.Context(), newFile("file-2", tbl, []string{"1"}, []string{"1e999999"}))
	expectRefused(t, err, driver.RowError{Row: 1, Column: "body", Reason: "22003", Message: "value overflows numeric format"})
}

func TestEncodingAllocatesNothing(t *testing.T) {
	var s fields
	var cells [][]byte
	for _, v := range values {
		if v.column != "" {
			continue
		}
		f := field{column: column{kind: "b"}, cell: len(cells), typ: v.typ}
		f.precision, f.scale, _ = v.typ.DecimalOf()
		s, cells = append(s, f), append(cells, []byte(v.cells[1]))
	}
	dst := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		if _, no := s.appendBinary(dst, cells, 0); no != nil {
			t.Fatal(no)
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
